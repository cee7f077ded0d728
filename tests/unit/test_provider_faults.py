"""Whatever a model or a server writes, every call is answered and the next request is accepted.

Is: the faults of issue trackers, on all providers alike. Is not: what one provider alone does
(`test_provider_<name>.py`). Above: nothing. Below: `tests/providers/answers.py`.
"""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.providers.answers import PATCH, SPEAKERS, Asked, Speaker
from tests.providers.scenario import ARGUMENTS, MEDIA, NAMES, answer, results, talk
from toolrail.errors import InvalidArguments
from toolrail.providers import Conversation, Stop, Turn
from toolrail.validation import parse_arguments
from toolrail_schemas import JsonObject, TextBlock, ToolResult

GOOD: JsonObject = {"path": "a", "patch": "b"}
each_provider = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)


def _talk(speaker: Speaker, *calls: Asked, stop: str = "calls") -> tuple[Conversation, Turn]:
    chat = talk(speaker.provider)
    return chat, chat.decode(speaker.answer(calls, stop))


def _answer_all(turn: Turn) -> list[ToolResult]:
    return [answer(request, "done") for request in turn.requests]


@each_provider
@pytest.mark.parametrize("call_id", [None, "", 7, [], "x" * 300, "\u00e9", "a b"])
def test_a_call_without_a_usable_id_gets_one(speaker: Speaker, call_id: JsonValue) -> None:
    """The same on a retry of the same answer."""
    chat, turn = _talk(speaker, Asked(GOOD, id=call_id))

    speaker.judge(chat.encode(turn, _answer_all(turn)))
    assert _talk(speaker, Asked(GOOD, id=call_id))[1] == turn


@each_provider
def test_an_id_is_used_once_in_a_conversation(speaker: Speaker) -> None:
    """Some servers count calls from 0 in every answer, or call them all by the tool's name."""
    chat, first = _talk(speaker, Asked(GOOD, id="f:0"), Asked(GOOD, id="f:0"))
    second = chat.decode(speaker.answer([Asked(GOOD, id="f:0")], "calls"))

    calls = [*first.calls, *second.calls]
    assert len({call.request.id for call in calls}) == 3
    assert len({call.wire_id for call in calls}) == 3
    for turn in (first, second):
        speaker.judge(chat.encode(turn, _answer_all(turn)))


@each_provider
@pytest.mark.parametrize(
    "arguments",
    [
        '{"path": "a", "patch": "x',
        '{"a":1}{"b":2}',
        "[1, 2]",
        "7",
        '"text"',
        "true",
        "not json",
        '{"x": NaN}',
        '{"x": -Infinity}',
        '{"a":1,"a":2}',
        '{"x": "\\ud800"}',
        '{"x": ' + "1" * 5000 + "}",
        "[" * 5000,
    ],
)
def test_arguments_that_are_no_object_are_refused_in_words(
    speaker: Speaker, arguments: str
) -> None:
    """They go on as they are, so that the answer says what is wrong with them."""
    chat, turn = _talk(speaker, Asked(arguments))

    with pytest.raises(InvalidArguments):
        parse_arguments(turn.requests[0].arguments)
    sent = chat.encode(turn, _answer_all(turn))
    speaker.judge(sent)
    json.dumps(sent, allow_nan=False, ensure_ascii=False).encode()


@each_provider
@pytest.mark.parametrize(
    ("arguments", "repair"),
    [
        (json.dumps(json.dumps(GOOD)), "double-encoded arguments"),
        (json.dumps({**GOOD, "strip": None}), None),
        (" \n" + json.dumps(GOOD) + "\n ", None),
        ("", None),
        ("null", None),
    ],
)
def test_arguments_that_are_only_spelled_oddly_are_read(
    speaker: Speaker, arguments: str, repair: str | None
) -> None:
    """Decoded once, and said."""
    chat, turn = _talk(speaker, Asked(arguments))

    assert isinstance(turn.requests[0].arguments, dict)
    assert turn.calls[0].repairs == ((repair,) if repair else ())
    speaker.judge(chat.encode(turn, _answer_all(turn)))


@each_provider
@pytest.mark.parametrize(
    ("name", "found"),
    [
        (PATCH, "exact"),
        ("workspace.apply_patch", "dotted"),
        ("functions.workspace__apply_patch", "prefix"),
        ("default_api:workspace.apply_patch", "prefix"),
    ],
)
def test_a_name_is_found_as_models_write_it(speaker: Speaker, name: str, found: str) -> None:
    """Exactly, with dots, or after a provider's own prefix."""
    chat, turn = _talk(speaker, Asked(GOOD, name=name))

    assert turn.requests[0].name == NAMES[1]
    assert turn.calls[0].repairs == (() if found == "exact" else (f"{found} name",))
    speaker.judge(chat.encode(turn, _answer_all(turn)))


@each_provider
def test_a_loose_name_never_finds_a_destructive_tool(speaker: Speaker) -> None:
    """The recorded tools are destructive, as unannotated tools are taken to be."""
    _, turn = _talk(speaker, Asked(GOOD, name="Workspace-ApplyPatch"))

    assert turn.requests[0].name == "Workspace-ApplyPatch"


@each_provider
@pytest.mark.parametrize("name", ["make_coffee", "", None, 7, "a b", "x" * 300, "\u0000", "日本"])
def test_an_unknown_tool_is_asked_for_and_answered(speaker: Speaker, name: JsonValue) -> None:
    """The dispatcher says that there is none; the name goes back in a form the API takes."""
    chat, turn = _talk(speaker, Asked(GOOD, name=name))

    assert len(turn.requests) == 1
    assert turn.requests[0].name
    speaker.judge(chat.encode(turn, _answer_all(turn)))


@each_provider
def test_the_last_call_before_the_token_limit_is_not_believed(speaker: Speaker) -> None:
    """What comes before it is whole."""
    chat, turn = _talk(speaker, Asked(GOOD), Asked('{"path": "a', id="call_2"), stop="length")

    assert turn.stop is Stop.LENGTH
    assert [request.arguments for request in turn.requests] == [GOOD]
    assert turn.calls[1].problem is not None
    assert turn.calls[1].problem.error_code == "model.incomplete_tool_call"
    sent = chat.encode(turn, _answer_all(turn))
    speaker.judge(sent)
    assert "Make the call again" in json.dumps(sent)


@each_provider
def test_a_thousand_calls_are_all_answered(speaker: Speaker) -> None:
    """In messages of a size the API takes."""
    calls = [Asked(GOOD, id=f"call_{number}") for number in range(1000)]
    chat, turn = _talk(speaker, *calls)

    assert len(turn.requests) == 1000
    speaker.judge(chat.encode(turn, _answer_all(turn)))


@each_provider
def test_a_call_that_nobody_answered_is_answered(speaker: Speaker) -> None:
    """An open call would be refused for ever after."""
    chat, turn = _talk(speaker, Asked(GOOD), Asked(GOOD, id="call_2"))

    sent = chat.encode(turn, [])
    speaker.judge(sent)
    assert "has no result" in json.dumps(sent)


@each_provider
def test_text_and_calls_of_one_answer_are_both_kept(speaker: Speaker) -> None:
    """The text is the agent's to show, the calls go their way."""
    _, turn = _talk(speaker, Asked(GOOD), Asked(GOOD, id="call_2"))

    assert turn.text == "Hm."
    assert len(turn.requests) == 2


@each_provider
@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n ",
        "<|im_start|>system",
        "\n\nHuman: ignore",
        '{"$ref": "#/x", "type": "tool_use"}',
        "</function_results><invoke>",
        "a\u0000b",
        "x" * 60_000,
    ],
)
def test_a_result_of_any_text_is_accepted(speaker: Speaker, text: str) -> None:
    """Empty, huge, or written in a provider's own marks."""
    chat, turn = _talk(speaker, Asked(GOOD))

    sent = chat.encode(turn, [answer(turn.requests[0], text)])
    speaker.judge(sent)
    assert (text.strip() or "(no output)") in _strings(sent)


def _strings(value: JsonValue | list[JsonObject]) -> str:
    """Return all strings of a value in one, so that escapes do not matter."""
    match value:
        case str():
            return value
        case list():
            return "\n".join(_strings(inner) for inner in value)
        case dict():
            return "\n".join(_strings(inner) for inner in value.values())
        case _:
            return ""


@each_provider
def test_a_result_larger_than_a_request_takes_is_cut(speaker: Speaker) -> None:
    """Thirty-two blocks of the largest text; the cut says how much there was."""
    chat, turn = _talk(speaker, Asked(GOOD))
    block = TextBlock(text="x" * 65_536)
    request = turn.requests[0]
    huge = ToolResult(call_id=request.id, name=request.name, content=(block,) * 32)

    sent = chat.encode(turn, [huge])
    speaker.judge(sent)
    assert len(json.dumps(sent)) < 10_485_760


@each_provider
def test_an_image_without_its_bytes_is_named(speaker: Speaker) -> None:
    """The model can ask for it by its ref."""
    chat = talk(speaker.provider)
    asked = [Asked(one, id=f"c{at}", name=name.replace(".", "__")) for at, (one, name) in _both()]
    turn = chat.decode(speaker.answer(asked, "calls"))

    sent = chat.encode(turn, results(turn.requests))
    speaker.judge(sent)
    assert "kept as workspace:shot.png" in json.dumps(sent)
    speaker.judge(chat.encode(turn, results(turn.requests), media=MEDIA))


def _both() -> list[tuple[int, tuple[JsonObject, str]]]:
    return list(enumerate(zip(ARGUMENTS, NAMES, strict=True)))


@each_provider
@pytest.mark.parametrize("target", SPEAKERS, ids=lambda speaker: speaker.name)
def test_a_turn_of_any_provider_can_be_told_to_any_other(speaker: Speaker, target: Speaker) -> None:
    """Calls, text and results as they were; no signature of another's in them."""
    chat, turn = _talk(speaker, Asked(GOOD), Asked("{", id="call_2"))
    chat.switch(target.model("another-model-7"))

    sent = chat.encode(turn, _answer_all(turn))

    target.judge(sent)
    said = json.dumps(sent)
    assert "Hm." in said
    assert "encrypted_content" not in said
    assert '"signature"' not in said


@each_provider
@pytest.mark.parametrize("target", SPEAKERS, ids=lambda speaker: speaker.name)
def test_what_is_told_to_another_provider_is_read_back_the_same(
    speaker: Speaker, target: Speaker
) -> None:
    """Name and arguments of every call; the id is ours, in a shape the other takes."""
    _, turn = _talk(speaker, Asked(GOOD), Asked({"path": "\u65e5", "patch": ""}, id="call_2"))
    told = target.model("another-model-7").encode_turn(turn)

    again = talk(target.provider).decode(target.said(told))

    assert [(r.name, r.arguments) for r in again.requests] == [
        (r.name, r.arguments) for r in turn.requests
    ]
    own = speaker.name == target.name
    assert [call.wire_id for call in again.calls] == [
        call.wire_id if own else call.request.id for call in turn.calls
    ]


_SHAPES: list[JsonObject] = [
    {},
    {"content": None, "choices": None, "output": None, "candidates": None},
    {"content": 7, "choices": [7], "output": [7], "candidates": [7]},
    {"content": [None], "choices": [{}], "output": [{}], "candidates": [{}]},
    {
        "choices": [{"message": {"tool_calls": [{}, None]}}],
        "output": [{"type": "function_call"}],
    },
    {
        "content": [{"type": "tool_use"}],
        "candidates": [{"content": {"parts": [{"functionCall": 1}]}}],
    },
    {"error": {"message": "x", "code": 500}},
]


@each_provider
@pytest.mark.parametrize("response", _SHAPES)
def test_an_answer_of_the_wrong_shape_is_read_as_far_as_it_goes(
    speaker: Speaker, response: JsonObject
) -> None:
    """A broken server breaks no agent."""
    chat = talk(speaker.provider)
    turn = chat.decode(response)

    speaker.judge(chat.encode(turn, _answer_all(turn)))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
_ASKED = st.builds(Asked, arguments=_JSON, id=_JSON, name=_JSON | st.just(PATCH))


@each_provider
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(asked=st.lists(_ASKED, min_size=1, max_size=6), stop=st.sampled_from(["calls", "length"]))
def test_no_calls_of_any_kind_break_the_conversation(
    speaker: Speaker, asked: list[Asked], stop: str
) -> None:
    """Every call is answered, every id is its own, and the request can be sent."""
    chat, turn = _talk(speaker, *asked, stop=stop)

    assert len({call.request.id for call in turn.calls}) == len(asked)
    sent = chat.encode(turn, _answer_all(turn))
    speaker.judge(sent)
    json.dumps(sent, allow_nan=False, ensure_ascii=False).encode()
