"""Anthropic's recorded traffic is read and written byte by byte as its SDK does.

Is: the recordings, and what the Messages API refuses. Is not: a live API. Above: nothing. Below:
`toolrail.providers.anthropic`, `tests/providers`.
"""

import json

import pytest
from pydantic import JsonValue

from tests.providers.scenario import (
    ARGUMENTS,
    MEDIA,
    NAMES,
    answer,
    check_two_calls,
    recorded,
    recorded_events,
    results,
    spec,
    specs,
    talk,
)
from toolrail.providers import Anthropic, Conversation, Stop, ToolOptions, Turn
from toolrail_schemas import Caller, ImageRefBlock, JsonObject, TextBlock, ToolResult, sha256_hex

SEARCH: JsonObject = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


def _message(content: list[JsonValue], stop: str = "tool_use") -> JsonObject:
    return {"role": "assistant", "model": "claude-x", "content": content, "stop_reason": stop}


def _use(**fields: JsonValue) -> JsonObject:
    return {"type": "tool_use", "id": "toolu_1", "name": "workspace__apply_patch", **fields}


def _content(messages: list[JsonObject], at: int) -> list[JsonObject]:
    content = messages[at]["content"]
    assert isinstance(content, list)
    return [block for block in content if isinstance(block, dict)]


def test_tools_are_declared_as_the_sdk_sends_them() -> None:
    """Names mapped, schemas untouched where the API takes them, examples beside."""
    tools = Conversation(Anthropic(), run_id="r").tools(specs(examples=True))

    assert tools == recorded("anthropic.request_1")["tools"]


def test_a_recorded_answer_becomes_two_calls_and_goes_back_byte_equal() -> None:
    """The assistant's turn is repeated whole: signatures, redacted thoughts, order."""
    chat = talk(Anthropic(model="claude-opus-5-5"))
    response = recorded("anthropic.response_1")

    turn = chat.decode(response)

    check_two_calls(turn)
    assert (turn.stop, turn.text) == (Stop.CALLS, "Running both.")
    sent = chat.encode(turn, results(turn.requests), media=MEDIA)
    assert json.dumps(sent[0]["content"]) == json.dumps(response["content"])
    messages = recorded("anthropic.request_2")["messages"]
    assert isinstance(messages, list)
    assert sent == messages[1:]


def test_what_the_sdk_parsed_is_read_the_same() -> None:
    """An agent service may pass its SDK's dump."""
    turn = talk(Anthropic()).decode(recorded("anthropic.response_1.sdk_parsed"))

    check_two_calls(turn)


def test_an_answer_without_calls_ends_the_turn() -> None:
    """Nothing is to be dispatched or answered."""
    chat = talk(Anthropic())
    turn = chat.decode(recorded("anthropic.response_2"))

    assert (turn.requests, turn.stop, turn.goes_on) == ((), Stop.END, False)
    assert [message["role"] for message in chat.encode(turn, [])] == ["assistant"]


def _split_arguments(events: list[JsonObject]) -> list[JsonObject]:
    """Return the events with every argument fragment cut at every character."""
    cut: list[JsonObject] = []
    for event in events:
        delta = event.get("delta")
        fragment = delta.get("partial_json") if isinstance(delta, dict) else None
        if not isinstance(fragment, str):
            cut.append(event)
            continue
        cut.extend(
            {**event, "delta": {"type": "input_json_delta", "partial_json": char}}
            for char in fragment
        )
    return cut


def test_a_recorded_stream_is_the_recorded_answer() -> None:
    """Cut at every character, too."""
    events = recorded_events("anthropic.stream_1.events")
    for cut in (events, _split_arguments(events)):
        chat = talk(Anthropic())
        turn = chat.decode_events(cut)

        check_two_calls(turn)
        sent = _content(chat.encode(turn, results(turn.requests), media=MEDIA), 0)
        final = recorded("anthropic.stream_1.sdk_final")["content"]
        assert sent == final


def _ended_calls(events: list[JsonObject]) -> int:
    ended = [event.get("index") for event in events if event["type"] == "content_block_stop"]
    return (3 in ended) + (4 in ended)


def test_a_stream_that_breaks_anywhere_never_yields_a_call_that_was_not_ended() -> None:
    """However whole its arguments look; and what goes back has no half of a thought in it."""
    events = _split_arguments(recorded_events("anthropic.stream_1.events"))
    for at in range(len(events)):
        chat = talk(Anthropic())
        turn = chat.decode_events(events[:at])

        assert len(turn.requests) == _ended_calls(events[:at])
        assert [r.arguments for r in turn.requests] == ARGUMENTS[: len(turn.requests)]
        for call in turn.calls[len(turn.requests) :]:
            assert call.problem is not None
            assert call.problem.error_code == "model.incomplete_tool_call"
        sent = chat.encode(turn, [answer(request, "ok") for request in turn.requests])
        assert_accepted(sent)
        assert turn.goes_on


def assert_accepted(messages: list[JsonObject]) -> None:
    """Nothing the API is known to refuse is in the messages."""
    waiting: list[JsonValue] = []
    for at, message in enumerate(messages):
        blocks = _content(messages, at)
        assert blocks
        if message["role"] == "user":
            answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            assert answers == waiting
            assert [block["type"] for block in blocks[: len(answers)]] == ["tool_result"] * len(
                answers
            )
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for block in blocks:
            _check_block(block)
    assert not waiting


def _check_block(block: JsonObject) -> None:
    match block["type"]:
        case "thinking":
            assert block["signature"]
        case "text":
            assert isinstance(block["text"], str)
            assert block["text"].strip()
        case "tool_use":
            assert isinstance(block["input"], dict)
            assert isinstance(block["id"], str)
        case _:
            pass


def test_a_native_search_is_declared_and_its_blocks_go_back() -> None:
    """Deferred tools are declared as such; examples and search exclude each other."""
    chat = Conversation(Anthropic(), run_id="r")
    tools = chat.tools(specs(deferred=True, examples=True), ToolOptions(server_search=True))

    expected = recorded("anthropic.toolsearch_request_1")["tools"]
    assert isinstance(expected, list)
    for tool in expected:
        assert isinstance(tool, dict)
        tool.pop("input_examples", None)
    assert tools == expected
    response = recorded("anthropic.toolsearch_response_1")
    turn = chat.decode(response)
    assert [request.name for request in turn.requests] == [NAMES[1]]
    sent = chat.encode(turn, [answer(turn.requests[0], "ok")])
    assert json.dumps(sent[0]["content"]) == json.dumps(response["content"])


def test_our_search_answers_with_references_to_declared_tools() -> None:
    """Whatever is no declared tool is left out; the API refuses a reference to it."""
    chat = Conversation(Anthropic(), run_id="r")
    search = spec("tool_search", SEARCH, description="client search")
    tools = chat.tools([search, *specs(deferred=True)])
    turn = chat.decode(_message([_use(id="toolu_cs", name="tool_search", input={"q": "patch"})]))
    found = ToolResult(
        call_id=turn.requests[0].id,
        name="tool_search",
        content=(TextBlock(text="2 tools"),),
        structured={"tools": [{"name": "workspace__apply_patch"}, {"name": "nobody.knows"}]},
    )

    sent = chat.encode(turn, [found])

    messages = recorded("anthropic.toolsearch_custom_request_2")["messages"]
    assert isinstance(messages, list)
    assert sent == messages[1:]
    assert [tool.get("defer_loading", False) for tool in tools] == [False, True, True]


@pytest.mark.parametrize(
    ("block", "repair"),
    [
        (_use(id=None, input={}), "call id"),
        (_use(id="x" * 300, input={}), "call id"),
        (_use(id="with space", input={}), "call id"),
        (_use(name="functions.workspace__apply_patch", input={}), "prefix name"),
        (_use(name="workspace.apply_patch", input={}), "dotted name"),
        (_use(input='"{\\"path\\": \\"a\\"}"'), "double-encoded arguments"),
    ],
)
def test_what_is_only_spelled_wrong_is_mended_and_said(block: JsonObject, repair: str) -> None:
    """The next request would be refused otherwise."""
    chat = talk(Anthropic())
    turn = chat.decode(_message([block]))

    assert turn.calls[0].repairs == (repair,)
    assert turn.requests[0].name == NAMES[1]
    sent = chat.encode(turn, [answer(turn.requests[0], "ok")])
    assert_accepted(sent)


@pytest.mark.parametrize(
    "arguments",
    ['{"a":', "{}{}", "[1]", "7", '{"a":1,"a":2}', '{"a":NaN}', [1], 7, {"a": float("nan")}],
)
def test_what_is_no_object_goes_on_as_it_is_to_be_refused(arguments: JsonValue) -> None:
    """The dispatcher answers it with the reason; the model's turn goes back as an object."""
    chat = talk(Anthropic())
    turn = chat.decode(_message([_use(input=arguments)]))

    request = turn.requests[0]
    assert isinstance(request.arguments, str)
    sent = chat.encode(turn, [answer(request, "no")])
    assert_accepted(sent)
    assert "INVALID_JSON" in json.dumps(sent[0], allow_nan=False)


def test_ids_are_unique_over_the_whole_conversation() -> None:
    """Within an answer and across answers; a retry of the same answer gets the same ids."""
    chat = talk(Anthropic())
    first = chat.decode(_message([_use(input={}), _use(input={})]))
    second = chat.decode(_message([_use(input={})]))
    calls = [*first.calls, *second.calls]

    assert len({call.wire_id for call in calls}) == 3
    assert len({call.request.id for call in calls}) == 3
    again = talk(Anthropic()).decode(_message([_use(input={}), _use(input={})]))
    assert again == first
    for turn in (first, second):
        assert_accepted(chat.encode(turn, [answer(request, "ok") for request in turn.requests]))


def test_a_paused_turn_goes_back_unchanged() -> None:
    """The provider goes on with it."""
    chat = talk(Anthropic())
    content: list[JsonValue] = [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
    ]
    turn = chat.decode(_message(content, "pause_turn"))

    assert (turn.stop, turn.goes_on) == (Stop.PAUSED, True)
    assert chat.encode(turn, []) == [{"role": "assistant", "content": content}]


def test_a_call_that_the_token_limit_cut_is_not_dispatched() -> None:
    """An object cannot show that it was cut, so the last one is not believed."""
    chat = talk(Anthropic())
    turn = chat.decode(_message([_use(input={}), _use(id="toolu_2", input={"n": 1})], "max_tokens"))

    assert turn.stop is Stop.LENGTH
    assert len(turn.requests) == 1
    sent = chat.encode(turn, [answer(turn.requests[0], "ok")])
    assert_accepted(sent)
    last = _content(sent, 1)[1]
    assert last["is_error"] is True


def test_an_unknown_tool_is_still_answered() -> None:
    """By the dispatcher, under the name the model wrote."""
    turn = talk(Anthropic()).decode(_message([_use(name="make_coffee", input={})]))

    assert turn.requests[0].name == "make_coffee"


def test_empty_text_is_not_sent_back() -> None:
    """The API sends it and refuses it."""
    chat = talk(Anthropic())
    turn = chat.decode(_message([{"type": "text", "text": ""}, _use(input={})]))

    sent = chat.encode(turn, [answer(turn.requests[0], "")])
    assert_accepted(sent)
    assert _content(sent, 1)[0]["content"] == [{"type": "text", "text": "(no output)"}]


def test_while_a_tool_of_the_provider_runs_only_results_are_sent() -> None:
    """Images of a failed call wait for another turn."""
    chat = talk(Anthropic())
    response = recorded("anthropic.response_1")
    content = response["content"]
    assert isinstance(content, list)
    content.append({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
    turn = chat.decode(response)
    failed = results(turn.requests)[0].model_copy(
        update={"is_error": True, "error_code": "tool.failed", "error_class": "recoverable"}
    )

    blocks = _content(chat.encode(turn, [failed], media=MEDIA), 1)

    assert [block["type"] for block in blocks] == ["tool_result", "tool_result"]


def test_a_call_of_a_program_says_so() -> None:
    """Policy tells it from a call of the model."""
    block = _use(input={}, caller={"type": "code_execution_20260120", "tool_id": "srv_1"})
    turn = talk(Anthropic()).decode(_message([block]))

    assert turn.requests[0].caller is Caller.CODE_EXECUTION


def test_another_model_family_gets_no_thoughts() -> None:
    """A signature holds for one family only; the calls keep their ids."""
    chat = talk(Anthropic(model="claude-opus-5-5-20261101"))
    turn = chat.decode(recorded("anthropic.response_1"))
    same = chat.encode(turn, results(turn.requests))
    chat.switch(Anthropic(model="claude-haiku-5"))
    sent = chat.encode(turn, results(turn.requests))

    assert [block["type"] for block in _content(sent, 0)] == ["text", "tool_use", "tool_use"]
    assert "signature" not in json.dumps(sent)
    assert "signature" in json.dumps(same)
    assert_accepted(sent)


def test_another_organisation_gets_no_thoughts() -> None:
    """Signatures do not hold across transports either."""
    chat = talk(Anthropic(model="claude-opus-5-5", realm="vertex"))
    turn = chat.decode(recorded("anthropic.response_1"))
    chat.switch(Anthropic(model="claude-opus-5-5"))

    assert "signature" not in json.dumps(chat.encode(turn, results(turn.requests)))


def test_an_image_larger_than_the_api_takes_is_named() -> None:
    """Five MiB of base64; the model can ask for it by its ref."""
    data = b"\x89PNG" + bytes(5 * 1024 * 1024)
    ref = "workspace:large.png"
    image = ImageRefBlock(ref=ref, mime="image/png", bytes=len(data), sha256=sha256_hex(data))
    chat = talk(Anthropic())
    turn = chat.decode(_message([_use(input={})]))
    request = turn.requests[0]
    result = ToolResult(
        call_id=request.id, name=request.name, content=(image,), resource_refs=(ref,)
    )

    sent = json.dumps(chat.encode(turn, [result], media={image.sha256: data}))
    assert "kept as workspace:large.png" in sent
    assert len(sent) < 1000


def test_a_thousand_calls_are_a_thousand_answers() -> None:
    """Each with an id and a result."""
    chat = talk(Anthropic())
    turn: Turn = chat.decode(_message([_use(input={}) for _ in range(1000)]))

    assert len({request.id for request in turn.requests}) == 1000
    assert_accepted(chat.encode(turn, []))
