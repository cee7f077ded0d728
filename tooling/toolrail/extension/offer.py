"""Make of a function the tool that an extension registers.

Is: names, limits and hints of one tool, checked where it is declared. Is not: reading signatures,
which `toolrail.tools` does for every kind of tool. Above: `extension.py`. Below: `toolrail.tools`.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypedDict, cast

from pydantic import ValidationError

from toolrail.errors import ConfigError
from toolrail.tools import Cost, Isolation, SurfaceMeta, Tool, ToolOptions, tool
from toolrail_schemas import ExtensionTool, JsonObject

HINTS = ("read_only", "destructive", "idempotent", "open_world", "cost", "cancellable")
REFUSED: Mapping[str, str] = {
    "visibility": "who may see an extension's tool is decided by policy",
    "permission": "a tool of an extension asks for approval until policy says otherwise",
    "budget": "an extension cannot set its own budget; give timeout_s if a call takes long",
    "trusted": "an extension is never trusted",
    "isolation": "a function runs in this process, a blocking one in a thread",
    "side_effect": "the effects of an extension's tool count as external",
    "rollback": "the effects of an extension's tool count as not undoable",
}
_NAME_PART = re.compile(r"[^a-z0-9_]+")


class ExtensionToolOptions(TypedDict, total=False):
    """What `@extension.tool` takes besides the name. Hints are hints: policy decides."""

    title: str
    """For people; derived from the name."""
    description: str
    """For the model; the docstring's prose when left out."""
    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool
    cost: Cost
    cancellable: bool
    """A cancel may stop it midway. Left out: true for an async function."""
    timeout_s: float
    """0.1 to 120; 20 when left out."""
    output_schema: JsonObject
    """Left out: from the return annotation when that is a pydantic model."""
    surface: SurfaceMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One tool of an extension."""

    message: ExtensionTool
    """As it is registered."""
    tool: Tool
    """As it is run."""


def make_offer(
    function: Callable[..., object],
    name: str,
    options: ExtensionToolOptions,
    *,
    extension: str,
    version: str,
) -> Offer:
    """Return the offer of a function.

    Raises:
        ConfigError: It cannot be a tool of an extension; names file, line, parameter and the fix.
    """
    canonical = f"ext.{extension}.{name}"
    _refuse_rights(options, canonical)
    made = _make_tool(function, f"{_plain(extension)}.{_plain(name)}", options)
    hints = {hint: value for hint, value in options.items() if hint in HINTS}
    hints.setdefault("cancellable", made.is_async)
    fields: dict[str, object] = {
        "name": name,
        "title": options.get("title"),
        "description": made.spec.description,
        "input_schema": made.spec.input_schema,
        "output_schema": made.spec.output_schema,
        "annotations": hints,
        "surface_meta": made.spec.surface_meta,
    }
    if "timeout_s" in options:
        fields["timeout_ms"] = round(options["timeout_s"] * 1000)
    try:
        message = ExtensionTool.model_validate(fields)
        spec = message.to_spec(extension=extension, version=version)
    except ValidationError as error:
        raise ConfigError(
            complaint(error), fix="See the limits of an extension's tools.", key=canonical
        ) from None
    return Offer(message=message, tool=replace(made, spec=spec))


def complaint(error: ValidationError) -> str:
    """Return the first problem of a message, with its place."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    text = first["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{place}: {text}." if place else f"{text}."


def _refuse_rights(options: ExtensionToolOptions, canonical: str) -> None:
    for option in options:
        if option in ExtensionToolOptions.__annotations__:
            continue
        why = REFUSED.get(option, "there is no such option")
        raise ConfigError(f"says {option}, but {why}.", fix="Leave it out.", key=canonical)


def _make_tool(function: Callable[..., object], name: str, options: ExtensionToolOptions) -> Tool:
    """Read the function as any tool is read; its native name only stands in complaints."""
    said: dict[str, object] = {
        option: value for option, value in options.items() if option != "timeout_s"
    }
    is_async = inspect.iscoroutinefunction(function)
    said["isolation"] = Isolation.LOOP if is_async else Isolation.THREAD
    return tool(name, **cast("ToolOptions", said))(function)


def _plain(name: str) -> str:
    plain = _NAME_PART.sub("_", name.lower())
    return plain if plain[:1].isalpha() else f"x{plain}"
