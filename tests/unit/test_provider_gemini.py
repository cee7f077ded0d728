"""What Gemini alone does: its subset of schemas, signatures, media, and calls that break.

Is: the recordings and Vertex's piecewise arguments. Is not: what all providers share
(`test_provider_recordings.py`, `test_provider_faults.py`). Above: nothing. Below:
`toolrail.providers.gemini`, `tests/providers`.
"""

import json

from pydantic import JsonValue

from tests.providers.scenario import (
    ARGUMENTS,
    MEDIA,
    PATCH,
    camel,
    check_two_calls,
    recorded,
    recorded_value,
    results,
    specs,
    talk,
)
from toolrail.providers import (
    Conversation,
    Gemini,
    GeminiInteractions,
    OpenAIChat,
    Stop,
    ToolOptions,
)
from toolrail_schemas import JsonObject


def _legacy() -> list[JsonValue]:
    contents = recorded("gemini.request_2.legacy_image")["contents"]
    assert isinstance(contents, list)
    return contents[2:]


def test_gemini_gets_the_recorded_tools_in_its_own_subset() -> None:
    """As recorded but for what Gemini does not take: formats, defaults, lists of types."""
    for name in ("gemini.request_1", "gemini.request_1.no_ids"):
        recording = camel(recorded(name)["tools"])
        tools = Conversation(Gemini(), run_id="r").tools(specs())
        for declared, expected in zip(_functions(tools), _functions(recording), strict=True):
            assert declared["name"] == expected["name"]
            assert declared["description"] == expected["description"]
            mine, theirs = declared["parametersJsonSchema"], expected["parametersJsonSchema"]
            assert isinstance(mine, dict)
            assert isinstance(theirs, dict)
            assert mine["required"] == theirs["required"]
            assert mine["additionalProperties"] is False


def _functions(tools: JsonValue | list[JsonObject]) -> list[JsonObject]:
    assert isinstance(tools, list)
    assert isinstance(tools[0], dict)
    functions = tools[0]["functionDeclarations"]
    assert isinstance(functions, list)
    return [function for function in functions if isinstance(function, dict)]


def test_images_for_an_older_gemini_follow_in_a_content_of_their_own() -> None:
    """Gemini 2 refuses media inside a result, and counts the parts beside it."""
    chat = talk(Gemini(model="gemini-2.5-pro"))
    turn = chat.decode(recorded("gemini.response_1.no_ids"))
    sent = Gemini(model="gemini-2.5-pro").encode_results(turn, results(turn.requests), media=MEDIA)

    recording = json.dumps(camel(_legacy()))
    recording = recording.replace(
        "see image in the next message",
        "Screenshot taken (2x2).\\n[1 image(s) in the next message]",
    )
    assert camel([*sent]) == json.loads(recording)


def test_a_gemini_stream_that_breaks_yields_no_call() -> None:
    """Only the end of the whole answer says that its calls are whole."""
    events = recorded_value("gemini.stream_1.events")
    assert isinstance(events, list)
    for at in range(len(events)):
        turn = talk(Gemini()).decode_events(events[:at])

        assert turn.requests == ()
        assert turn.goes_on


def test_a_signature_at_the_end_of_a_stream_is_kept() -> None:
    """It comes on an empty text, which must not be taken for nothing."""
    chat = talk(Gemini())
    events = recorded_value("gemini.stream_1.events")
    assert isinstance(events, list)
    turn = chat.decode_events(events)

    assert json.dumps(chat.encode(turn, [])[0]).count("thoughtSignature") == 2


def test_arguments_that_vertex_sends_path_by_path_are_put_together() -> None:
    """Text that goes on, nested paths, lists; whole when the call's own end was seen."""
    pieces: list[JsonValue] = [
        {"functionCall": {"name": "workspace__apply_patch", "willContinue": True}},
        _piece({"jsonPath": "$.path", "stringValue": "a.", "willContinue": True}),
        _piece({"jsonPath": "$.path", "stringValue": "txt"}),
        _piece({"jsonPath": "$.patch", "stringValue": PATCH}),
        _piece({"jsonPath": "$.more[1].deep['a.b']", "numberValue": 2}),
        _piece({"jsonPath": "$.strip", "nullValue": "NULL_VALUE"}),
        {"functionCall": {}},
    ]
    chunks = [{"candidates": [{"content": {"parts": [piece]}}]} for piece in pieces]

    turn = talk(Gemini()).decode_events(chunks)

    expected = {**ARGUMENTS[1], "more": [None, {"deep": {"a.b": 2}}]}
    assert [request.arguments for request in turn.requests] == [expected]
    assert not talk(Gemini()).decode_events(chunks[:-1]).requests


def _piece(piece: JsonObject) -> JsonValue:
    return {"functionCall": {"partialArgs": [piece], "willContinue": True}}


def test_a_malformed_call_of_gemini_is_told_to_the_model() -> None:
    """There is no content to send back; the model is asked again, with the reason."""
    chat = talk(Gemini())
    turn = chat.decode(recorded("gemini.response_malformed"))

    assert (turn.stop, turn.reason) == (Stop.ERROR, "MALFORMED_FUNCTION_CALL")
    assert turn.goes_on
    (message,) = chat.encode(turn, [])
    assert message["role"] == "user"
    assert "malformed function call (Malformed function call: print" in json.dumps(message)


def test_interactions_go_back_as_the_sdk_sends_them() -> None:
    """Thoughts and signatures in their places; errors have a flag, images stand in the result."""
    chat = talk(GeminiInteractions())
    response = recorded("gemini_interactions.response_1")
    turn = chat.decode(response)

    check_two_calls(turn)
    sent = chat.encode(turn, results(turn.requests), media=MEDIA)
    expected = recorded("gemini_interactions.request_2")["input"]
    assert isinstance(expected, list)
    assert sent == expected[1:]
    assert json.dumps(sent[:3]) == json.dumps(response["steps"])
    last = chat.decode(recorded("gemini_interactions.response_2"))
    assert (last.requests, last.goes_on) == ((), False)
    assert "red" in last.text


def test_interactions_declare_tools_and_deferred_ones() -> None:
    """As recorded, but for what Gemini takes of schemas."""
    tools = Conversation(GeminiInteractions(), run_id="r").tools(specs())
    recording = recorded("gemini_interactions.request_1")["tools"]
    assert isinstance(recording, list)
    for tool, expected in zip(tools, recording, strict=True):
        assert isinstance(expected, dict)
        assert {**tool, "parameters": {}} == {**expected, "parameters": {}}
    deferred = Conversation(GeminiInteractions(), run_id="r").tools(
        specs(deferred=True), ToolOptions(server_search=True)
    )
    assert deferred[0] == {"type": "tool_search", "execution": "server"}
    assert [tool.get("defer_loading") for tool in deferred[1:]] == [True, True]


def _interaction_events() -> list[JsonObject]:
    """Return the recorded interaction as a stream, arguments cut at every character."""
    steps = recorded("gemini_interactions.response_1")["steps"]
    assert isinstance(steps, list)
    events: list[JsonObject] = [{"event_type": "interaction.created", "interaction": {"id": "i"}}]
    for index, step in enumerate(steps):
        assert isinstance(step, dict)
        arguments = step.pop("arguments", None)
        events.append({"event_type": "step.start", "index": index, "step": step})
        letters = json.dumps(arguments) if arguments else ""
        for letter in letters:
            delta: JsonObject = {"type": "arguments_delta", "arguments": letter}
            events.append({"event_type": "step.delta", "index": index, "delta": delta})
        events.append({"event_type": "step.stop", "index": index})
    done: JsonObject = {"status": "requires_action"}
    return [*events, {"event_type": "interaction.completed", "interaction": done}]


def test_a_streamed_interaction_is_whole_only_at_its_end_markers() -> None:
    """Arguments come letter by letter; a call counts when its step has stopped."""
    events = _interaction_events()

    check_two_calls(talk(GeminiInteractions()).decode_events(events))
    for at in range(len(events)):
        turn = talk(GeminiInteractions()).decode_events(events[:at])
        stopped = [event["index"] for event in events[:at] if event["event_type"] == "step.stop"]
        assert len(turn.requests) == (1 in stopped) + (2 in stopped)


def test_calls_before_a_bad_end_are_not_believed() -> None:
    """The answer as a whole was refused; each is told, and the model is asked again."""
    chat = talk(Gemini())
    response = recorded("gemini.response_1")
    candidates = response["candidates"]
    assert isinstance(candidates, list)
    assert isinstance(candidates[0], dict)
    candidates[0]["finishReason"] = "TOO_MANY_TOOL_CALLS"
    turn = chat.decode(response)

    assert turn.requests == ()
    sent = chat.encode(turn, [])
    assert [message["role"] for message in sent] == ["model", "user", "user"]
    assert "too many tool calls" in json.dumps(sent[2])


def test_a_call_of_another_model_gets_the_signature_that_stands_for_none() -> None:
    """Gemini 3 refuses a first call without one."""
    chat = talk(OpenAIChat())
    turn = chat.decode(recorded("openai_chat.response_1"))
    chat.switch(Gemini(model="gemini-3.8-flash"))

    said = json.dumps(chat.encode(turn, results(turn.requests))[0])
    assert said.count('"thoughtSignature": "skip_thought_signature_validator"') == 1
