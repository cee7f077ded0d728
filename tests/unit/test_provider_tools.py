"""Tools are declared within every provider's limits, and what a model makes of them is read back.

Is: limits, deferral, strict mode, respelled keys, and names and ids as such. Is not: schemas alone
(`test_provider_schemas.py`). Above: nothing. Below: `toolrail.providers`.
"""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.providers.answers import SPEAKERS, Asked, Speaker
from tests.providers.scenario import answer, spec
from toolrail.names import AliasMap, alias_of
from toolrail.providers import (
    Anthropic,
    Conversation,
    OpenAIResponses,
    Provider,
    ToolBox,
    ToolOptions,
)
from toolrail.providers.ids import neutral_id, wire_id
from toolrail.providers.schema import LossKind
from toolrail_schemas import JsonObject, SurfaceMeta, ToolResult, ToolSpec

each_provider = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)
EMPTY: JsonObject = {"type": "object", "properties": {}}
ODD: JsonObject = {
    "type": "object",
    "properties": {
        "filter[id]": {"type": "integer"},
        "\u540d\u524d": {"type": "string"},
        "more": {"type": "object", "properties": {"a b": {"type": "array"}}},
    },
    "required": ["filter[id]"],
    "additionalProperties": False,
}
ODD_ARGUMENTS: JsonObject = {"filter[id]": 7, "\u540d\u524d": "x", "more": {"a b": [1]}}
STRICT: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "in": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"x": {"type": "string"}, "y": {"enum": ["a", "b"]}},
                "required": ["x"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}


def _many(count: int, **meta: bool) -> list[ToolSpec]:
    return [
        spec(f"group.tool_{number}", EMPTY, meta=SurfaceMeta.model_validate(meta))
        for number in range(count)
    ]


def _encode(speaker: Speaker, specs: list[ToolSpec], options: ToolOptions | None = None) -> ToolBox:
    return speaker.provider.encode_tools(specs, options or ToolOptions())


def _declared(box: ToolBox) -> list[JsonObject]:
    if box.tools and "functionDeclarations" in box.tools[0]:
        functions = box.tools[0]["functionDeclarations"]
        assert isinstance(functions, list)
        return [function for function in functions if isinstance(function, dict)]
    return box.tools


@each_provider
def test_more_tools_than_a_request_takes_are_named_not_lost(speaker: Speaker) -> None:
    """The last ones in the list give way."""
    most = speaker.provider.capabilities.max_tools
    box = _encode(speaker, _many(most + 3))

    assert len(_declared(box)) == most
    assert box.left_out == tuple(f"group.tool_{number}" for number in range(most, most + 3))


@each_provider
def test_a_search_finds_what_does_not_fit(speaker: Speaker) -> None:
    """Deferred where the provider has a word for it, else left out until it is loaded."""
    search = spec("tool_search", EMPTY)
    most = speaker.provider.capabilities.max_tools
    tools = [*_many(most + 3), search]
    waiting = [f"group.tool_{number}" for number in range(most - 1, most + 3)]

    box = _encode(speaker, tools)
    loaded = _encode(speaker, tools, ToolOptions(loaded=waiting[-1:]))

    if speaker.provider.capabilities.native_deferral:
        assert list(box.deferred) == waiting
        assert sum("defer_loading" in tool for tool in box.tools) == len(waiting)
    else:
        assert list(box.left_out) == waiting
    assert "tool_search" in box.declared
    assert waiting[-1] in loaded.declared
    assert waiting[-1] not in loaded.deferred


@each_provider
def test_a_deferred_tool_waits_until_it_is_loaded(speaker: Speaker) -> None:
    """As its own spec says, unless the context says otherwise."""
    tools = [spec("tool_search", EMPTY), *_many(2, deferred_loading=True)]
    first, second = "group.tool_0", "group.tool_1"

    box = _encode(speaker, tools, ToolOptions(loaded=[first]))
    shown = _encode(speaker, tools, ToolOptions(deferred=[]))

    assert second in box.deferred + box.left_out
    assert first not in box.deferred + box.left_out
    assert shown.deferred + shown.left_out == ()


@each_provider
def test_no_tools_are_no_tools(speaker: Speaker) -> None:
    """Not an empty list inside a list, which is refused."""
    assert _encode(speaker, []).tools == []


@each_provider
def test_a_callers_list_is_its_own(speaker: Speaker) -> None:
    """It may add what it likes, without harm to the next request."""
    tools = _many(2)
    before = json.dumps(_encode(speaker, tools).tools)
    first = _encode(speaker, tools).tools
    first[0]["cache_control"] = {"type": "ephemeral"}
    first.append({})

    assert json.dumps(_encode(speaker, tools).tools) == before


@each_provider
def test_a_long_description_ends_with_a_sentence(speaker: Speaker) -> None:
    """Where the provider has a limit; the whole of it stays in the search."""
    long = spec("group.tool", EMPTY, description="One sentence. " * 100 + "The end.")
    said = json.dumps(_encode(speaker, [long]).tools)

    if speaker.name.startswith("openai"):
        assert "One sentence. \\u2026" in said
        assert len(said) < 1300
    else:
        assert "The end." in said


@each_provider
def test_respelled_keys_come_back_as_the_tools_own(speaker: Speaker) -> None:
    """At any depth, and examples are shown in the keys that the model sees."""
    meta = SurfaceMeta(input_examples=(ODD_ARGUMENTS,))
    chat = Conversation(speaker.provider, run_id="r")
    chat.tools([spec("group.odd", ODD, meta=meta)])
    box = chat.toolbox
    assert box is not None
    wire = box.codecs["group.odd"].to_wire(ODD_ARGUMENTS)
    if not speaker.name.startswith("openai"):
        assert wire != ODD_ARGUMENTS
    turn = chat.decode(speaker.answer([Asked(wire, name="group__odd")], "calls"))

    assert turn.requests[0].arguments == ODD_ARGUMENTS
    if speaker.name == "anthropic":
        assert box.tools[0]["input_examples"] == [wire]


def test_an_argument_error_speaks_in_the_keys_the_model_saw() -> None:
    """Our validation knows only the tool's own."""
    speaker = SPEAKERS[2]
    chat = Conversation(speaker.provider, run_id="r")
    chat.tools([spec("group.odd", ODD)])
    turn = chat.decode(speaker.answer([Asked({}, name="group__odd")], "calls"))
    request = turn.requests[0]
    refused = ToolResult.failure(
        request.id, request.name, code="tool.invalid_arguments", text="'filter[id]' is required."
    )

    said = json.dumps(chat.encode(turn, [refused]))
    assert re.search(r"In your schema: 'filter\[id\]' is filter_id___[a-z2-7]{12}\.", said)


@each_provider
def test_strict_is_asked_for_only_where_nothing_is_lost(speaker: Speaker) -> None:
    """A tool with a free object stays plain."""
    free = spec("group.free", {"type": "object", "properties": {"x": {"type": "object"}}})
    closed = spec("group.closed", STRICT)
    both = ToolOptions(strict=["group.free", "group.closed"])

    box = _encode(speaker, [free, closed], both)
    plain = _encode(speaker, [free, closed])

    can = speaker.provider.capabilities.strict_schema
    assert {name: codec.is_strict for name, codec in box.codecs.items()} == {
        "group.free": False,
        "group.closed": can,
    }
    assert '"strict": true' not in json.dumps(plain.tools)
    assert ('"strict": true' in json.dumps(box.tools)) == can


@each_provider
def test_a_null_of_strict_mode_means_left_out(speaker: Speaker) -> None:
    """Where null is no value of the tool's own; where it is, it stays."""
    chat = Conversation(speaker.provider, run_id="r")
    chat.tools([spec("group.closed", STRICT)], ToolOptions(strict=["group.closed"]))
    said: JsonObject = {
        "path": "a",
        "limit": None,
        "note": None,
        "in": [{"x": "1", "y": None}],
    }
    turn = chat.decode(speaker.answer([Asked(said, name="group__closed")], "calls"))

    box = chat.toolbox
    assert box is not None
    if box.codecs["group.closed"].is_strict:
        assert turn.requests[0].arguments == {"path": "a", "note": None, "in": [{"x": "1"}]}
    else:
        assert turn.requests[0].arguments == said


def test_strict_stops_at_the_budget_of_a_request() -> None:
    """Anthropic takes twenty strict tools; the others are sent plain."""
    speaker = SPEAKERS[2]
    tools = [
        spec(
            f"group.tool_{number}",
            {"type": "object", "properties": {}, "additionalProperties": False},
        )
        for number in range(25)
    ]
    box = _encode(speaker, tools, ToolOptions(strict=[tool.name for tool in tools]))

    assert sum(tool.get("strict", False) is True for tool in box.tools) == 20


@each_provider
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            {"tags": '["a", "b"]', "deep": {"o": '{"k": 1}'}},
            {"tags": ["a", "b"], "deep": {"o": {"k": 1}}},
        ),
        ({"tags": ["a"], "deep": {}}, {"tags": ["a"], "deep": {}}),
    ],
)
def test_an_array_or_object_written_as_text_is_read(
    speaker: Speaker, said: JsonObject, meant: JsonObject
) -> None:
    """Only when the arguments fit afterwards, and said."""
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "object", "properties": {"o": {"type": "object"}}},
        },
        "required": ["tags"],
    }
    chat = Conversation(speaker.provider, run_id="r")
    chat.tools([spec("group.tool", schema)])
    turn = chat.decode(speaker.answer([Asked(said, name="group__tool")], "calls"))
    still: JsonObject = {**said, "tags": 7}
    wrong = chat.decode(speaker.answer([Asked(still, name="group__tool", id="c2")], "calls"))

    assert turn.requests[0].arguments == meant
    assert bool(turn.calls[0].repairs) == (said != meant)
    assert wrong.requests[0].arguments == still


@each_provider
def test_losses_are_recorded_by_tool(speaker: Speaker) -> None:
    """Whoever freezes a run can say what its model was not told."""
    loose = spec("group.loose", {"type": "object", "properties": {"s": {"pattern": "(?!a)b"}}})
    box = _encode(speaker, [loose, spec("group.plain", EMPTY)])

    kinds = [loss.kind for loss in box.losses.get("group.loose", ())]
    assert kinds == ([] if speaker.name == "anthropic" else [LossKind.CONSTRAINT])
    assert "group.plain" not in box.losses


@each_provider
def test_a_deferred_tool_can_still_be_called(speaker: Speaker) -> None:
    """A model may remember it from before; the context gate answers."""
    chat = Conversation(speaker.provider, run_id="r")
    chat.tools([spec("tool_search", EMPTY), *_many(1, deferred_loading=True)])
    turn = chat.decode(speaker.answer([Asked({}, name="group__tool_0")], "calls"))

    assert turn.requests[0].name == "group.tool_0"
    speaker.judge(chat.encode(turn, [answer(turn.requests[0], "not loaded")]))


@each_provider
def test_a_tool_given_twice_is_declared_once(speaker: Speaker) -> None:
    """A name twice is refused; the first counts."""
    first = spec("group.tool", EMPTY, description="First.")
    box = _encode(speaker, [first, spec("group.tool", ODD), spec("group.other", EMPTY)])

    assert len(_declared(box)) == 2
    assert "First." in json.dumps(_declared(box)[0])


@pytest.mark.parametrize("provider", [OpenAIResponses(searches=False), Anthropic(searches=False)])
def test_a_model_without_search_sees_only_loaded_tools(provider: Provider) -> None:
    """Our search is an ordinary tool then, and answers in words."""
    chat = Conversation(provider, run_id="r")
    tools = chat.tools([spec("tool_search", EMPTY), *_many(2, deferred_loading=True)])

    assert [tool["name"] for tool in tools] == ["tool_search"]
    assert chat.toolbox is not None
    assert chat.toolbox.left_out == ("group.tool_0", "group.tool_1")
    assert not provider.capabilities.native_deferral


@pytest.mark.parametrize("is_error", [False, True])
def test_a_search_of_openai_that_found_nothing_says_so(is_error: bool) -> None:
    """Its output has room for tools only, so the words follow."""
    chat = Conversation(OpenAIResponses(), run_id="r")
    chat.tools([spec("tool_search", EMPTY)])
    search: JsonObject = {
        "type": "tool_search_call",
        "call_id": "c1",
        "execution": "client",
        "arguments": {},
    }
    turn = chat.decode({"output": [search], "status": "completed"})
    request = turn.requests[0]
    if is_error:
        result = ToolResult.failure(request.id, request.name, code="tool.failed", text="No, sorry.")
    else:
        result = answer(request, "No, sorry.")

    output, words = chat.encode(turn, [result])[1:]
    assert output["tools"] == []
    assert words == {"role": "developer", "content": "tool_search: No, sorry."}


_NAMES = st.text("abXY09_-.", min_size=1, max_size=90) | st.text(max_size=40).filter(
    lambda text: text.isprintable()
)


@given(st.lists(_NAMES, unique=True, max_size=12))
def test_names_go_out_and_come_back(names: list[str]) -> None:
    """Of any spelling; every provider takes what goes out."""
    aliases = AliasMap(names)
    for name in names:
        assert aliases.canonical(alias_of(name)) == name
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", alias_of(name))


_ANY_ID: st.SearchStrategy[JsonValue] = st.one_of(
    st.none(), st.text(max_size=300), st.just("get_weather"), st.just("functions.Bash:0")
)


@given(st.lists(_ANY_ID, max_size=20))
def test_ids_of_a_conversation_are_its_own(natives: list[JsonValue]) -> None:
    """Whatever the provider sent; ours are of a shape that every provider takes."""
    pattern = re.compile(r"[\x21-\x7e]{1,40}\Z")
    taken: set[str] = set()
    for position, native in enumerate(natives):
        minted = neutral_id("run", 3, position)
        assert re.fullmatch(r"tc_[a-z2-7]{24}", minted)
        known = wire_id(native, minted, pattern=pattern, taken=taken)
        assert known not in taken
        taken.add(known)
