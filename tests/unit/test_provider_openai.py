"""What OpenAI's APIs alone do: reasoning that must not stand alone, and servers that copy them.

Is: broken and odd streams of Chat Completions and Responses, custom calls, extras. Is not: what all
providers share (`test_provider_faults.py`). Above: nothing. Below: `toolrail.providers`.
"""

import json

import pytest
from pydantic import JsonValue

from tests.providers.scenario import ARGUMENTS, NAMES, answer, recorded_events, talk
from toolrail.providers import OpenAIChat, OpenAIResponses, Stop, Turn
from toolrail_schemas import JsonObject

THOUGHT: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}


def _chunk(*calls: JsonObject, reason: str | None = None, **delta: JsonValue) -> JsonObject:
    if calls:
        delta["tool_calls"] = list[JsonValue](calls)
    choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"model": "m", "choices": [choice]}


def _piece(arguments: str, **fields: JsonValue) -> JsonObject:
    name = fields.pop("name", None)
    function: JsonObject = {"arguments": arguments}
    if name is not None:
        function["name"] = name
    return {**fields, "function": function}


def _names_and_arguments(turn: Turn) -> list[tuple[str, object]]:
    return [(request.name, request.arguments) for request in turn.requests]


def test_reasoning_that_led_to_nothing_does_not_go_back() -> None:
    """The API refuses a thought without the item that should follow it."""
    chat = talk(OpenAIResponses())
    said: JsonObject = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "So"}],
    }
    turn = chat.decode(
        {
            "output": [said, THOUGHT],
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
        }
    )

    assert turn.stop is Stop.LENGTH
    assert chat.encode(turn, []) == [said]


def test_a_call_whose_reasoning_broke_off_goes_back_without_both() -> None:
    """A call with an id is refused without the reasoning it came from."""
    events = recorded_events("openai_responses.stream_1.events")
    whole = [event for event in events if event.get("output_index") != 0]
    begun = [event for event in events if event["type"] == "response.output_item.added"][:1]
    chat = talk(OpenAIResponses())
    turn = chat.decode_events([*begun, *whole[:-1]])

    assert _names_and_arguments(turn) == list(zip(NAMES, ARGUMENTS, strict=True))
    sent = chat.encode(turn, [answer(request, "ok") for request in turn.requests])
    assert [item["type"] for item in sent] == ["function_call"] * 2 + ["function_call_output"] * 2
    assert all("id" not in item for item in sent)


@pytest.mark.parametrize("index", [0, None])
def test_servers_that_do_not_number_calls_still_send_two(index: int | None) -> None:
    """Some say 0 for every call, some nothing; a new id begins a new call."""
    number: JsonObject = {} if index is None else {"index": index}
    first, second = (json.dumps(arguments) for arguments in ARGUMENTS)
    events = [
        _chunk(_piece(first[:9], id="c1", name="browser__screenshot", **number)),
        _chunk(_piece(first[9:], **number)),
        _chunk(_piece(second[:9], id="c2", name="workspace__apply_patch", **number)),
        _chunk(_piece(second[9:], id="c2", name="workspace__apply_patch", **number)),
        _chunk(reason="stop"),
    ]
    turn = talk(OpenAIChat()).decode_events(events)

    assert _names_and_arguments(turn) == list(zip(NAMES, ARGUMENTS, strict=True))
    assert turn.stop is Stop.CALLS


def test_a_stream_without_a_reason_ends_with_its_last_event() -> None:
    """`[DONE]` is an end marker, too; a connection that closes is none."""
    events: list[object] = [_chunk(_piece("{}", index=0, id="c1", name="browser__screenshot"))]

    assert not talk(OpenAIChat()).decode_events(events).requests
    assert len(talk(OpenAIChat()).decode_events([*events, "[DONE]"]).requests) == 1


def test_a_letter_cut_in_two_is_whole_again() -> None:
    """Half a surrogate pair in each of two events."""
    halves = ['{"path": "\ud83d', '\ude00", "patch": "x"}']
    events = [
        _chunk(_piece(halves[0], index=0, id="c1", name="workspace__apply_patch")),
        _chunk(_piece(halves[1], index=0)),
        _chunk(reason="tool_calls"),
    ]
    chat = talk(OpenAIChat())
    turn = chat.decode_events(events)

    assert turn.requests[0].arguments == {"path": "\U0001f600", "patch": "x"}
    json.dumps(chat.encode(turn, []), ensure_ascii=False).encode()


def test_what_a_server_adds_goes_back_to_it() -> None:
    """Thoughts of other models behind the same API, and signatures of Gemini's."""
    extra: JsonObject = {"google": {"thought_signature": "s"}}
    call = _piece("{}", index=0, id="c1", name="browser__screenshot", extra_content=extra)
    events = [
        _chunk(role="assistant", reasoning_content="Let me "),
        _chunk(reasoning_content="see."),
        _chunk({**call, "type": "function"}),
        _chunk(reason="tool_calls"),
    ]
    chat = talk(OpenAIChat())
    message = chat.encode(chat.decode_events(events), [])[0]

    assert message["reasoning_content"] == "Let me see."
    assert '"extra_content": {"google": {"thought_signature": "s"}}' in json.dumps(message)
    assert '"index"' not in json.dumps(message)


def test_a_custom_call_keeps_its_free_text() -> None:
    """Its text is the one argument `input`."""
    custom: JsonObject = {"name": "raw_patch", "input": "*** Begin"}
    call: JsonObject = {"id": "c1", "type": "custom", "custom": custom}
    message: JsonObject = {"role": "assistant", "content": None, "tool_calls": [call]}
    response: JsonObject = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    chat = talk(OpenAIChat())
    turn = chat.decode(response)

    assert turn.requests[0].arguments == {"input": "*** Begin"}
    assert chat.encode(turn, [answer(turn.requests[0], "ok")]) == [
        message,
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]


def test_a_refusal_is_repeated_and_ends_the_turn() -> None:
    """There is nothing to call."""
    message: JsonObject = {"role": "assistant", "content": None, "refusal": "No."}
    chat = talk(OpenAIChat())
    turn = chat.decode({"choices": [{"message": message, "finish_reason": "stop"}]})

    assert not turn.goes_on
    assert chat.encode(turn, []) == [message]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_failed_response_is_asked_again(status: str) -> None:
    """With the provider's own word for it."""
    chat = talk(OpenAIResponses())
    turn = chat.decode({"status": status, "error": {"code": "server_error"}, "output": []})

    assert (turn.stop, turn.goes_on) == (Stop.ERROR, True)
    assert "server_error" in json.dumps(chat.encode(turn, []))
