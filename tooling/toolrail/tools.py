"""Make a tool of a plain function: what a tool author imports.

Is: the `@tool` decorator, `Tool`, `ToolOutput`; `ToolContext` and the two errors a tool may raise
are here too, so that an author needs one import. Is not: finding tools (`discovery.py`) or
running them (`toolrail_workers`).
Above: tool modules, executors. Below: `parameters.py`, `context.py`, `errors.py`.

    from toolrail.tools import Rollback, tool

    @tool("notes.add", destructive=False, rollback=Rollback.NONE)
    def add(text: str, pinned: bool = False) -> str:
        '''Add a note to the shared list.'''
"""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack, get_type_hints, overload

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolrail.context import BlobStore, SessionMemory, ToolContext, WorkspaceAccess
from toolrail.errors import SystemFailure, ToolError
from toolrail.output import ToolOutput, no_output
from toolrail.parameters import Definition, Parameters, describe, read_parameters
from toolrail_schemas import (
    Annotations,
    Budget,
    Cost,
    Isolation,
    JsonObject,
    Permission,
    Rollback,
    SideEffect,
    Source,
    SurfaceMeta,
    ToolSpec,
    Visibility,
)

__all__ = [
    "BlobStore",
    "Budget",
    "Cost",
    "Isolation",
    "Permission",
    "Rollback",
    "SessionMemory",
    "SideEffect",
    "SurfaceMeta",
    "SystemFailure",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolOptions",
    "ToolOutput",
    "Visibility",
    "WorkspaceAccess",
    "tool",
]

_EFFECTS = (
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
    "side_effect",
    "rollback",
    "cost",
    "cancellable",
)


class ToolOptions(TypedDict, total=False):
    """What `@tool` takes besides the name. What is left out is derived or the worst case."""

    title: str
    """For people; derived from the name."""
    description: str
    """For the model; the docstring's prose when left out."""
    read_only: bool
    """Changes nothing observable; the other effects then follow."""
    destructive: bool
    """May remove or overwrite data. Left out: true, unless read-only."""
    idempotent: bool
    """The same call again has no further effect, so a lost attempt is retried. Left out: false."""
    open_world: bool
    """Talks to something outside the workspace. Left out: true, unless read-only."""
    side_effect: SideEffect
    rollback: Rollback
    cost: Cost
    cancellable: bool
    """A cancel may stop it midway. Left out: true."""
    permission: Permission
    """Left out: by the effects; a tool that may destroy or reach outside needs approval."""
    budget: Budget
    isolation: Isolation
    """Left out: `loop` for an async function, `process` for any other."""
    visibility: Visibility
    output_schema: JsonObject
    """Left out: from the return annotation when that is a pydantic model."""
    surface: SurfaceMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function with everything Toolrail needs to offer, govern and run it."""

    spec: ToolSpec
    function: Callable[..., object]
    parameters: Parameters
    isolation: Isolation
    is_async: bool

    @property
    def takes_context(self) -> bool:
        """Whether the function has a `ToolContext` parameter."""
        return self.parameters.context_name is not None

    @property
    def target(self) -> str:
        """`module:qualified_name`, by which another process imports the function."""
        return f"{self.function.__module__}:{self.function.__qualname__}"

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function itself, unchecked and ungoverned, as if it were not decorated."""
        return self.function(*args, **kwargs)

    def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Check the arguments, run a blocking function here, and return its output.

        Raises:
            ToolError: Raised by the function, or `tool.invalid_arguments`/`tool.invalid_output`.
        """
        return self.to_output(self.function(**self._bind(arguments, context)))

    async def run_async(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Check the arguments, await an async function, and return its output.

        Raises:
            ToolError: Raised by the function, or `tool.invalid_arguments`/`tool.invalid_output`.
        """
        pending = self.function(**self._bind(arguments, context))
        if not inspect.isawaitable(pending):
            raise TypeError(f"{self.spec.name} is not async; call run()")
        result: object = await pending
        return self.to_output(result)

    def call_isolated(self, arguments: JsonObject, context: JsonObject) -> JsonObject:
        """Run the call inside a child process; `ToolOutput.from_wire` reads the answer.

        Raises:
            ToolError: As `run`.
        """
        return self.run(arguments, ToolContext.from_wire(context)).to_wire()

    def to_output(self, value: object) -> ToolOutput:
        """Return what the function returned as an output.

        Text stays text, None is no output, anything else becomes JSON; it is `structured` too
        when the tool promises an `output_schema`.

        Raises:
            ToolError: `tool.invalid_output`, the value has no JSON form.
        """
        if isinstance(value, ToolOutput):
            return value
        if value is None:
            return ToolOutput()
        if isinstance(value, str):
            return ToolOutput.text(value)
        try:
            plain: JsonValue = to_jsonable_python(value, inf_nan_mode="constants")
        except (PydanticSerializationError, ValueError):
            raise no_output(f"a {type(value).__name__}, which has no JSON form") from None
        output = ToolOutput.json(plain)
        return output if self.spec.output_schema is None else replace(output, structured=plain)

    def _bind(self, arguments: JsonObject, context: ToolContext) -> dict[str, object]:
        bound = self.parameters.bind(arguments)
        if self.parameters.context_name is not None:
            bound[self.parameters.context_name] = context
        return bound


@overload
def tool(name: Callable[..., object], /) -> Tool: ...
@overload
def tool(
    name: str | None = None, /, **options: Unpack[ToolOptions]
) -> Callable[[Callable[..., object]], Tool]: ...
def tool(
    name: Callable[..., object] | str | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., object]], Tool]:
    """Make a tool of the decorated function.

    The input schema comes from the signature: every parameter has a type pydantic can read from
    JSON, `Annotated[..., Field(...)]` adds limits and descriptions, the docstring's `Args:` adds
    descriptions too, and a parameter annotated `ToolContext` receives the call's context.
    Arguments are checked strictly before the function runs.

    Args:
        name: Canonical `group.verb`; the module's and the function's name when left out.
        options: See `ToolOptions`.

    Raises:
        ConfigError: The function cannot be a tool; names file, line, parameter and the fix.
    """
    if callable(name):
        return _make_tool(name, None, {})

    def decorate(function: Callable[..., object]) -> Tool:
        return _make_tool(function, name, options)

    return decorate


def _make_tool(function: Callable[..., object], name: str | None, options: ToolOptions) -> Tool:
    canonical = name or f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"
    definition = Definition(function, canonical)
    if not inspect.isfunction(function):
        raise definition.error("is not a plain function.", "Wrap it in a `def` and decorate that.")
    _check_options(options, definition)
    is_async = inspect.iscoroutinefunction(function)
    isolation = _isolation_of(function, is_async, options.get("isolation"), definition)
    description = options.get("description") or describe(function.__doc__ or "")
    if not description:
        raise definition.error("has no description.", "Write a docstring; the model reads it.")
    parameters = read_parameters(function, name=canonical, context_type=ToolContext)
    fields: dict[str, object] = {
        "name": canonical,
        "title": options.get("title"),
        "description": description,
        "input_schema": parameters.schema,
        "output_schema": options.get("output_schema") or _output_schema(function),
        "annotations": _annotations_of(options, definition),
        "permission": options.get("permission"),
        "budget": options.get("budget", Budget()),
        "visibility": options.get("visibility", Visibility.MODEL),
        "surface_meta": options.get("surface", SurfaceMeta()),
        "source": Source.BUILTIN,
    }
    said = {field: value for field, value in fields.items() if value is not None}
    try:
        spec = ToolSpec.model_validate(said)
    except ValidationError as error:
        raise definition.error(
            _complaint(error), "See the fields of ToolSpec for the limits."
        ) from None
    _check_examples(spec, parameters, definition)
    return Tool(
        spec=spec, function=function, parameters=parameters, isolation=isolation, is_async=is_async
    )


def _check_options(options: ToolOptions, definition: Definition) -> None:
    """A misspelled effect would leave the worst case in force, and nobody would know why."""
    known = list(ToolOptions.__annotations__)
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            fix = f"Did you mean {near[0]}?" if near else f"Known are: {', '.join(known)}."
            raise definition.error(f"has no option {name!r}.", fix)
    if options.get("read_only") and options.get("destructive"):
        raise definition.error(
            "is read_only and destructive at once.", "Keep the one that is true."
        )
    isolation: object = options.get("isolation", Isolation.LOOP)
    if not isinstance(isolation, Isolation):
        raise definition.error(
            f"has the isolation {isolation!r}.",
            "Use Isolation.LOOP, Isolation.THREAD or Isolation.PROCESS of toolrail.tools.",
        )


def _isolation_of(
    function: Callable[..., object], is_async: bool, asked: Isolation | None, definition: Definition
) -> Isolation:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise definition.error(
            "is a generator.", "Return the whole answer; report progress by context."
        )
    if is_async and asked not in (None, Isolation.LOOP):
        raise definition.error(
            f"is async but asks for isolation={asked}.", "Write `def` instead of `async def`."
        )
    if not is_async and asked is Isolation.LOOP:
        raise definition.error(
            "would block the worker's event loop.", "Write `async def`, or leave isolation out."
        )
    isolation = asked or (Isolation.LOOP if is_async else Isolation.PROCESS)
    if isolation is Isolation.PROCESS and "<" in function.__qualname__:
        raise definition.error(
            "is defined inside another function, so no other process can import it.",
            "Move it to module level, or pass isolation=Isolation.THREAD.",
        )
    return isolation


def _annotations_of(options: ToolOptions, definition: Definition) -> Annotations:
    said = {effect: options[effect] for effect in _EFFECTS if effect in options}  # type: ignore[literal-required]
    try:
        return Annotations.model_validate({"cancellable": True, **said, "trusted": True})
    except ValidationError as error:
        raise definition.error(_complaint(error), "Correct the effects given to @tool.") from None


def _output_schema(function: Callable[..., object]) -> JsonObject | None:
    hint: object = get_type_hints(function).get("return")
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return hint.model_json_schema(mode="serialization")
    return None


def _check_examples(spec: ToolSpec, parameters: Parameters, definition: Definition) -> None:
    for example in spec.surface_meta.input_examples:
        try:
            parameters.bind(example)
        except ToolError as error:
            raise definition.error(
                f"has an input example that does not fit: {error.message}", "Correct the example."
            ) from None


def _complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    text = first["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{place}: {text}." if place else f"{text}."
