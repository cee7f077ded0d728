"""A tool is a plain function: its signature is the schema, and the schema is kept."""

import dataclasses
import enum
import json
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from toolrail.tools import (
    SystemFailure,
    Tool,
    ToolContext,
    ToolError,
    ToolOptions,
    ToolOutput,
    tool,
)
from toolrail_schemas import (
    Annotations,
    ErrorClass,
    EventType,
    Isolation,
    JsonBlock,
    JsonObject,
    Permission,
    ResourceRefBlock,
    Source,
    TextBlock,
)

CONTEXT = ToolContext(run_id="run_01", call_key="0123456789abcdef")


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Answer(BaseModel):
    total: int


@tool("notes.add", read_only=True)
def add_note(
    text: str,
    count: int = 1,
    colour: Colour = Colour.RED,
    tags: Annotated[list[str], Field(max_length=2)] = [],  # noqa: B006  # the case under test
) -> str:
    """Add a note.

    It stays until it is removed.

    Args:
        text: What the note says,
            in one or two lines.
        count (int): How often.

    Returns:
        A confirmation.
    """
    return f"{text}*{count} {colour} {tags}"


def in_thread(**more: object) -> ToolOptions:
    options: ToolOptions = {"isolation": Isolation.THREAD, "read_only": True}
    options.update(more)  # type: ignore[typeddict-item]  # keys come from the tests below
    return options


def text_of(output: ToolOutput) -> str:
    (block,) = output.content
    assert isinstance(block, TextBlock)
    return block.text


def test_the_schema_comes_from_the_signature() -> None:
    """Types, defaults, limits and docstring descriptions all reach the input schema."""
    schema = add_note.spec.input_schema

    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["text"]
    assert "title" not in schema
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert properties["text"] == {
        "description": "What the note says, in one or two lines.",
        "type": "string",
    }
    assert properties["count"] == {"default": 1, "description": "How often.", "type": "integer"}
    assert properties["tags"] == {
        "default": [],
        "items": {"type": "string"},
        "maxItems": 2,
        "type": "array",
    }


def test_the_description_is_the_docstring_without_its_sections() -> None:
    """A model is not told what Python calls the return value."""
    assert add_note.spec.description == "Add a note.\n\nIt stays until it is removed."
    assert add_note.spec.title == "Add"
    assert add_note.spec.source is Source.BUILTIN


def test_an_async_function_runs_on_the_loop_and_a_blocking_one_in_a_process() -> None:
    """The default isolation is the safe one for each kind."""

    @tool("a.b")
    async def slow(x: int) -> int:
        """Wait."""
        return x

    assert slow.isolation is Isolation.LOOP
    assert slow.is_async
    assert add_note.isolation is Isolation.PROCESS
    assert add_note.target == f"{__name__}:add_note"


def test_a_bare_decorator_takes_module_and_function_as_the_name() -> None:
    """`@tool` without arguments is enough for a documented module-level function."""

    def find(word: str) -> str:
        """Find a word."""
        return word

    find.__qualname__ = "find"
    find.__module__ = "team.notes"

    assert tool(find).spec.name == "notes.find"


def test_unsaid_effects_are_the_worst_case_and_need_approval() -> None:
    """Silence never loosens anything."""

    @tool("a.b", isolation=Isolation.THREAD)
    def silent() -> None:
        """Do something."""

    assert silent.spec.annotations == Annotations.model_validate(
        {"trusted": True, "cancellable": True}
    )
    assert silent.spec.annotations.destructive
    assert silent.spec.permission is Permission.APPROVAL_REQUIRED
    assert add_note.spec.permission is Permission.ALWAYS_ALLOW


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"text": 5}, "text"),
        ({}, "text"),
        ({"text": "a", "count": "3"}, "count"),
        ({"text": "a", "count": 1.5}, "count"),
        ({"text": "a", "count": True}, "count"),
        ({"text": "a", "colour": "green"}, "colour"),
        ({"text": "a", "tags": ["a", "b", "c"]}, "tags"),
        ({"text": "a", "tags": [1]}, "tags.0"),
        ({"text": "a", "other": 1}, "other"),
        ({"text": "a", "p0": "x"}, "p0"),
        ({"text": "\ud800"}, ""),
    ],
)
def test_arguments_of_another_type_never_reach_the_function(
    arguments: JsonObject, place: str
) -> None:
    """The check is strict, closed, and names the argument."""
    with pytest.raises(ToolError) as caught:
        add_note.run(arguments, CONTEXT)

    assert caught.value.code == "tool.invalid_arguments"
    assert place in caught.value.message
    assert caught.value.next_action


def test_arguments_arrive_with_their_declared_types() -> None:
    """Enums, dataclasses and unions are built from JSON before the function runs."""
    seen: list[object] = []

    @tool("a.b", **in_thread())
    def take(
        point: Point, mode: Literal["x", "y"], colour: Colour, when: int | None = None
    ) -> None:
        """Take."""
        seen.extend([point, mode, colour, when])

    take.run({"point": {"x": 1}, "mode": "y", "colour": "blue"}, CONTEXT)

    assert seen == [Point(1), "y", Colour.BLUE, None]


def test_a_whole_number_sent_as_a_float_is_an_integer() -> None:
    """JSON Schema says 2.0 is an integer, and some providers send only floats."""
    assert text_of(add_note.run({"text": "a", "count": 2.0}, CONTEXT)) == "a*2 red []"


def test_parameters_may_be_called_like_methods_of_a_model() -> None:
    """`json`, `copy` and `model_fields` are ordinary names to a tool author."""

    @tool("a.b", **in_thread())
    def take(json: str, copy: int, model_fields: bool) -> str:
        """Take."""
        return f"{json}{copy}{model_fields}"

    assert text_of(take.run({"json": "j", "copy": 1, "model_fields": True}, CONTEXT)) == "j1True"
    assert set(take.spec.input_schema["properties"]) == {"json", "copy", "model_fields"}  # type: ignore[arg-type]


def test_a_mutable_default_is_fresh_for_every_call() -> None:
    """One call's list never leaks into the next."""

    @tool("a.b", **in_thread())
    def grow(items: list[int] = []) -> str:  # noqa: B006  # the case under test
        """Grow."""
        items.append(1)
        return str(items)

    assert [text_of(grow.run({}, CONTEXT)) for _ in range(2)] == ["[1]", "[1]"]


def test_a_field_in_the_place_of_the_default_counts() -> None:
    """`x: int = Field(default=3, gt=0)` is how pydantic users write it."""

    @tool("a.b", **in_thread())
    def take(x: int = Field(default=3, gt=0, description="How many")) -> str:
        """Take."""
        return str(x)

    assert text_of(take.run({}, CONTEXT)) == "3"
    assert take.spec.input_schema["properties"] == {
        "x": {"default": 3, "description": "How many", "exclusiveMinimum": 0, "type": "integer"}
    }
    with pytest.raises(ToolError):
        take.run({"x": 0}, CONTEXT)


@pytest.mark.parametrize("optional", [False, True])
def test_the_context_is_passed_by_type_and_is_no_argument(optional: bool) -> None:
    """Whatever the parameter is called, the model never sees or sets it."""

    def plain(text: str, where: ToolContext) -> str:
        """Say."""
        return text + where.call_key

    def maybe(text: str, where: ToolContext | None = None) -> str:
        """Say."""
        return text + (where.call_key if where else "")

    made = tool("a.b", **in_thread())(maybe if optional else plain)

    assert made.takes_context
    assert made.spec.input_schema["properties"] == {"text": {"type": "string"}}
    assert text_of(made.run({"text": "k"}, CONTEXT)) == "k0123456789abcdef"
    with pytest.raises(ToolError):
        made.run({"text": "k", "where": {}}, CONTEXT)


async def test_an_async_tool_is_awaited() -> None:
    """Arguments are checked and output is made the same way."""

    @tool("a.b")
    async def twice(x: int) -> dict[str, int]:
        """Double."""
        return {"x": 2 * x}

    output = await twice.run_async({"x": 4}, CONTEXT)

    assert output.content == (JsonBlock(value={"x": 8}),)
    assert output.structured is None


def test_a_returned_model_promises_its_schema_and_keeps_it() -> None:
    """The return annotation becomes `output_schema`, the value becomes `structured`."""

    @tool("a.b", **in_thread())
    def count() -> Answer:
        """Count."""
        return Answer(total=3)

    assert count.spec.output_schema is not None
    assert count.spec.output_schema["required"] == ["total"]
    assert count.run({}, CONTEXT).structured == {"total": 3}


@pytest.mark.parametrize(
    "value", [object(), float("nan"), {"a": float("inf")}, "\ud800", {1, object()}]
)
def test_a_value_without_a_json_form_is_an_answer_not_a_crash(value: object) -> None:
    """The model is told that the tool is at fault."""

    def bad() -> object:
        """Return something odd."""
        return value

    with pytest.raises(ToolError) as caught:
        tool("a.b", **in_thread())(bad).run({}, CONTEXT)

    assert caught.value.code == "tool.invalid_output"


def test_a_long_text_is_kept_whole_for_the_worker_to_cut() -> None:
    """A tool never has to know how much a result carries inline."""
    assert len(text_of(ToolOutput.text("a" * 300_000))) == 300_000
    assert ToolOutput.text("").content == ()


def test_errors_of_the_function_pass_through() -> None:
    """A ToolError is the function's own answer; a SystemFailure stays one."""

    @tool("a.b", **in_thread())
    def fail(hard: bool) -> str:
        """Fail."""
        if hard:
            raise SystemFailure("workspace.io_failed", "disk")
        raise ToolError("team.no_luck", "no luck", next_action="try again")

    with pytest.raises(ToolError, match="no luck"):
        fail.run({"hard": False}, CONTEXT)
    with pytest.raises(SystemFailure):
        fail.run({"hard": True}, CONTEXT)


def test_the_decorated_function_can_still_be_called() -> None:
    """Its own unit tests need no Toolrail."""
    assert isinstance(add_note, Tool)
    assert add_note("x", count=2) == "x*2 red []"


def test_a_context_crosses_a_process_boundary_by_value() -> None:
    """A child knows the call's facts; stores and workspace stay behind."""
    context = ToolContext(
        run_id="run_01", call_key="0123456789abcdef", attempt=2, deadline=12.5, tenant="t"
    )

    assert ToolContext.from_wire(context.to_wire()) == context
    assert ToolContext.from_wire(CONTEXT.to_wire()) == CONTEXT


def test_an_isolated_call_answers_in_json_and_loses_nothing() -> None:
    """Long text, refs, events and errors survive the way out of a child."""
    whole = ToolOutput(
        content=(
            *ToolOutput.text("a" * 100_000).content,
            *ToolOutput.json({"b": [1, None]}).content,
            ResourceRefBlock(uri="result:0123456789abcdef"),
        ),
        structured={"c": 1},
        is_error=True,
        error_code="team.no_luck",
        error_class=ErrorClass.RECOVERABLE,
        resource_refs=("result:0123456789abcdef",),
        events=((EventType.WORKSPACE_FILE_WRITTEN, {"path": "output/a"}),),
        truncated=True,
        summary="short",
    )

    assert ToolOutput.from_wire(json.loads(json.dumps(whole.to_wire()))) == whole
    answer = ToolOutput.from_wire(add_note.call_isolated({"text": "a"}, CONTEXT.to_wire()))
    assert answer == add_note.run({"text": "a"}, CONTEXT)
    with pytest.raises(ValueError, match="validation error"):
        ToolOutput.from_wire({"content": "x"})


def test_progress_is_clamped_and_optional() -> None:
    """A tool may report whatever it likes, listened to or not."""
    heard: list[tuple[float, str]] = []

    def hear(fraction: float, message: str) -> None:
        heard.append((fraction, message))

    context = dataclasses.replace(CONTEXT, on_progress=hear)

    CONTEXT.report_progress(0.5)
    context.report_progress(7, "x" * 300)

    assert heard == [(1.0, "x" * 200)]
