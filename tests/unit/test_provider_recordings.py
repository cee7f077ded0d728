"""The recorded traffic of OpenAI, Gemini and MCP is read and written as their SDKs do.

Is: the recordings of the two-call scenario, streams included. Is not: Anthropic's
(`test_provider_anthropic.py`), faults (`test_provider_faults.py`), or a live API. Above: nothing.
Below: `tests/providers`.
"""

import hashlib
import json
import re
from dataclasses import dataclass

import pytest
from pydantic import JsonValue

from tests.providers.scenario import (
    ARGUMENTS,
    FIXTURES,
    MEDIA,
    NAMES,
    answer,
    camel,
    check_two_calls,
    recorded,
    recorded_value,
    results,
    spec,
    specs,
    talk,
)
from toolrail.providers import (
    MCP,
    Conversation,
    Gemini,
    OpenAIChat,
    OpenAIResponses,
    Provider,
    Stop,
    ToolOptions,
)
from toolrail_schemas import JsonObject, TextBlock, ToolResult


@dataclass(frozen=True, slots=True)
class Recorded:
    """One provider's recordings."""

    provider: Provider
    name: str
    key: str
    """What a request calls its messages."""
    response: str = "response_1"
    request: str = "request_2"


ALL = (
    Recorded(OpenAIChat(), "openai_chat", "messages"),
    Recorded(OpenAIResponses(), "openai_responses", "input"),
    Recorded(Gemini(), "gemini", "contents"),
    Recorded(Gemini(), "gemini", "contents", "response_1.no_ids", "request_2.no_ids"),
)
each = pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.name}.{one.response}")


def _sent(one: Recorded, name: str) -> list[JsonValue]:
    messages = recorded(f"{one.name}.{name}")[one.key]
    assert isinstance(messages, list)
    return messages[1:]


def test_the_recordings_are_all_there() -> None:
    """Forty-seven, unchanged since they were made."""
    files = {path.name for path in FIXTURES.glob("*.json")} - {"manifest.json"}
    manifest = recorded("manifest")["files"]
    assert isinstance(manifest, dict)

    assert len(files) == 47
    assert files == set(manifest)
    for name, facts in manifest.items():
        assert isinstance(facts, dict)
        digest = hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()
        assert digest.startswith(str(facts["sha256"]))


@each
def test_a_recorded_answer_goes_back_as_the_sdk_sends_it(one: Recorded) -> None:
    """Two calls in our words; then the model's own turn and both results."""
    chat = talk(one.provider)
    turn = chat.decode(recorded(f"{one.name}.{one.response}"))

    check_two_calls(turn)
    assert turn.stop is Stop.CALLS
    sent = chat.encode(turn, results(turn.requests), media=MEDIA)
    assert camel([*sent]) == camel(_sent(one, one.request))


@each
def test_a_recorded_answer_goes_back_byte_equal(one: Recorded) -> None:
    """Reasoning, signatures and unknown fields in their places."""
    chat = talk(one.provider)
    response = recorded(f"{one.name}.{one.response}")
    sent = chat.encode(turn := chat.decode(response), results(turn.requests))

    match one.name:
        case "openai_responses":
            whole: JsonValue = response["output"]
            repeated: JsonValue = [*sent[:3]]
        case "gemini":
            whole = _candidate(response)["content"]
            repeated = sent[0]
        case _:
            whole = {**_message(response)}
            for key in ("refusal", "annotations"):
                whole.pop(key)
            repeated = sent[0]
    assert json.dumps(repeated) == json.dumps(whole)


def _candidate(response: JsonObject) -> JsonObject:
    candidates = response["candidates"]
    assert isinstance(candidates, list)
    assert isinstance(candidates[0], dict)
    return candidates[0]


def _message(response: JsonObject) -> JsonObject:
    choices = response["choices"]
    assert isinstance(choices, list)
    assert isinstance(choices[0], dict)
    message = choices[0]["message"]
    assert isinstance(message, dict)
    return message


@pytest.mark.parametrize("one", ALL[:2], ids=lambda one: one.name)
def test_tools_are_declared_as_the_sdk_sends_them(one: Recorded) -> None:
    """`strict: false` is always said."""
    tools = Conversation(one.provider, run_id="r").tools(specs())

    assert tools == recorded(f"{one.name}.request_1")["tools"]


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        (OpenAIChat(), "openai_chat.response_1.sdk_parsed"),
        (OpenAIResponses(), "openai_responses.response_1.sdk_parsed"),
        (Gemini(), "gemini.response_1.sdk_parsed"),
        (Gemini(), "gemini.response_1.no_ids.sdk_parsed"),
        (OpenAIChat(), "openai_chat.stream_1.sdk_final"),
        (OpenAIResponses(), "openai_responses.stream_1.sdk_final"),
    ],
)
def test_what_the_sdk_parsed_is_read_the_same(provider: Provider, name: str) -> None:
    """An agent service may pass its SDK's dump."""
    check_two_calls(talk(provider).decode(recorded(name)))


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        (OpenAIChat(), "openai_chat.response_2"),
        (OpenAIResponses(), "openai_responses.response_2"),
        (Gemini(), "gemini.response_2"),
        (Gemini(), "gemini.response_2.no_ids"),
    ],
)
def test_an_answer_without_calls_ends_the_turn(provider: Provider, name: str) -> None:
    """Its text is there, and one message goes back."""
    chat = talk(provider)
    turn = chat.decode(recorded(name))

    assert (turn.requests, turn.stop, turn.goes_on) == ((), Stop.END, False)
    assert "red" in turn.text
    assert len(chat.encode(turn, [])) == 1


@pytest.mark.parametrize("one", ALL[:3], ids=lambda one: one.name)
def test_a_recorded_stream_is_the_recorded_answer(one: Recorded) -> None:
    """As text of events, too."""
    events = recorded_value(f"{one.name}.stream_1.events")
    assert isinstance(events, list)
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    for said in (events, texts):
        turn = talk(one.provider).decode_events(said)

        check_two_calls(turn)
        assert turn.stop is Stop.CALLS


def _cut(value: JsonValue) -> list[JsonValue]:
    """Return an event as one for every character of the arguments in it."""
    text = json.dumps(value)
    found = re.search(r'"(arguments|delta)": ("(?:[^"\\]|\\.)+")', text)
    if found is None or '.done"' in text or '"item"' in text or '"output"' in text:
        return [value]
    letters = json.loads(found[2])
    return [
        json.loads(text[: found.start(2)] + json.dumps(letter) + text[found.end(2) :])
        for letter in letters
    ]


@pytest.mark.parametrize("one", ALL[:2], ids=lambda one: one.name)
def test_arguments_cut_at_every_character_are_whole_at_the_end(one: Recorded) -> None:
    """And at no point before the end marker is there a call to dispatch."""
    events = recorded_value(f"{one.name}.stream_1.events")
    assert isinstance(events, list)
    cut = [piece for event in events for piece in _cut(event)]
    assert len(cut) > len(events) + 100

    check_two_calls(talk(one.provider).decode_events(cut))
    for at in range(len(cut)):
        chat = talk(one.provider)
        turn = chat.decode_events(cut[:at])
        assert len(turn.requests) == _ended(one.name, cut[:at])
        assert [r.arguments for r in turn.requests] == ARGUMENTS[: len(turn.requests)]
        sent = chat.encode(turn, [answer(request, "ok") for request in turn.requests])
        assert sum("incomplete" in json.dumps(message) for message in sent) == len(
            turn.calls
        ) - len(turn.requests)


def _ended(name: str, events: list[JsonValue]) -> int:
    """Return how many calls had their end marker."""
    if name == "openai_chat":
        said = json.dumps(events)
        return 2 if '"finish_reason": "tool_calls"' in said else 0
    kinds = [str(event["type"]) for event in events if isinstance(event, dict)]
    if "response.completed" in kinds:
        return 2
    return kinds.count("response.function_call_arguments.done")


def test_openai_searches_with_our_tool_and_gets_whole_tools() -> None:
    """A deferred tool is declared as such; the search answers with its declaration."""
    search = spec(
        "tool_search",
        {
            "type": "object",
            "properties": {"queries": {"type": "array", "items": {"type": "string"}}},
            "required": ["queries"],
            "additionalProperties": False,
        },
        description="find tools",
    )
    screenshot, patch = specs()
    chat = Conversation(OpenAIResponses(), run_id="r")
    options = ToolOptions(deferred=[patch.name])
    tools = chat.tools([patch, search, screenshot], options)
    recording = recorded("openai_responses.toolsearch_request_1")["tools"]
    assert isinstance(recording, list)
    assert tools[1:] == [recording[1], recording[3]]
    assert tools[0]["defer_loading"] is True

    turn = chat.decode(recorded("openai_responses.toolsearch_response_1"))
    assert turn.requests[0].name == "tool_search"
    assert turn.requests[0].arguments == {"queries": ["patch"]}
    found = ToolResult(
        call_id=turn.requests[0].id,
        name="tool_search",
        content=(TextBlock(text="1 tool"),),
        structured={"tools": [{"name": "workspace__apply_patch"}]},
    )
    sent = chat.encode(turn, [found])

    expected = recorded("openai_responses.toolsearch_request_2")["input"]
    assert isinstance(expected, list)
    assert sent[:2] == expected[1:3]
    assert {**sent[2], "tools": []} == {**_object(expected[3]), "tools": []}
    assert sent[2]["tools"] == [tools[0]]
    _check_namespaced(chat)


def _check_namespaced(chat: Conversation) -> None:
    """Calls in a namespace find their tool and keep the namespace; custom calls are answered."""
    response = recorded("openai_responses.toolsearch_response_2")
    turn = chat.decode(response)
    assert [request.name for request in turn.requests] == [NAMES[1], "raw_patch"]
    assert turn.requests[1].arguments == {"input": "*** Begin Patch"}
    sent = chat.encode(turn, [answer(request, "ok") for request in turn.requests])
    assert json.dumps(sent[:2]) == json.dumps(response["output"])
    assert [item["type"] for item in sent[2:]] == [
        "function_call_output",
        "custom_tool_call_output",
    ]


def _object(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict)
    return value


def test_mcp_answers_as_the_recorded_server() -> None:
    """Names and schemas are our own; ids of requests go back as they came."""
    chat = talk(MCP())
    exchange = recorded_value("mcp.exchange")
    assert isinstance(exchange, list)
    listed, first, second = (_object(step) for step in exchange[1:])
    tools = Conversation(MCP(), run_id="r").tools(specs())
    expected = _object(_object(listed["response"])["result"])["tools"]
    assert isinstance(expected, list)
    for tool, recording in zip(tools, expected, strict=True):
        named = _object(recording)
        for key in ("name", "description", "inputSchema"):
            assert tool[key] == named[key]

    both = [chat.decode(step["request"]) for step in (first, second)]
    requests = [turn.requests[0] for turn in both]
    assert [request.name for request in requests] == NAMES
    assert [request.arguments for request in requests] == ARGUMENTS
    done = results((requests[0], requests[1]))
    for turn, result, step in zip(both, done, (first, second), strict=True):
        (sent,) = chat.encode(turn, [result], media=MEDIA)
        response = _object(step["response"])
        _object(response["result"]).pop("_meta")
        assert sent == response
