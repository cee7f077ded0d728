"""Declare a run's tools to a provider once, and remember how each was spelled.

Is: which tools are sent now, deferred or left out; strict or not; schemas adapted and cached by
spec hash. Is not: the shape of a declaration (each provider's own). Above: providers. Below:
`schema`, `wirenames.py`. Source: providers.md 0, 1.6 and 3; semantics 4.8 and 10.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from toolrail.names import alias_of
from toolrail.providers.schema import Adapted, Dialect, Loss, adapt
from toolrail.providers.schema.adapted import renamed
from toolrail.providers.wirenames import WireNames
from toolrail_schemas import JsonObject, ToolSpec

SEARCH = "tool_search"
"""Our tool that finds deferred tools."""
_CACHED_MAX = 4096
_SENTENCE_END = re.compile(r"(?<=[.!?。])\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """How tools are declared."""

    strict: Collection[str] = ()
    """Names of tools for which the provider is asked to force the schema, where nothing is lost."""
    deferred: Collection[str] | None = None
    """Names of tools that a search must load first; None takes what the specs say."""
    loaded: Collection[str] = ()
    """Deferred ones that were loaded since."""
    server_search: bool = False
    """Whether the provider's own tool search is declared, where there is one."""


@dataclass(frozen=True, slots=True)
class Codec:
    """How one tool's arguments are spelled for a model."""

    spec: ToolSpec
    keys: Mapping[str, str]
    is_strict: bool

    @property
    def schema(self) -> JsonObject:
        """The tool's own schema."""
        return self.spec.input_schema

    def from_wire(self, arguments: JsonObject) -> JsonObject:
        """Return a model's arguments in the tool's own keys."""
        own = renamed(arguments, self.keys)
        return own if isinstance(own, dict) else arguments

    def to_wire(self, arguments: JsonObject) -> JsonObject:
        """Return arguments in the keys that the model sees."""
        wire = renamed(arguments, {own: wire for wire, own in self.keys.items()})
        return wire if isinstance(wire, dict) else arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One tool, ready to be declared."""

    spec: ToolSpec
    wire_name: str
    description: str
    adapted: Adapted
    is_strict: bool
    is_deferred: bool
    has_search: bool
    """Whether any tool of the request may be deferred."""


@dataclass(frozen=True, slots=True)
class ToolBox:
    """The tools of one request."""

    tools: list[JsonObject]
    """As the provider takes them; a list of one's own."""
    names: WireNames
    codecs: Mapping[str, Codec]
    """By canonical name, of every tool given, sent or not."""
    declared: frozenset[str] = frozenset()
    """Canonical names of what is in `tools`, deferred ones too."""
    deferred: tuple[str, ...] = ()
    """Those declared but not loaded."""
    left_out: tuple[str, ...] = ()
    """Those not in `tools`: deferred where the provider has no word for it."""
    losses: Mapping[str, tuple[Loss, ...]] = field(default_factory=dict[str, tuple[Loss, ...]])
    """What each tool's schema does not say to the model; only tools that lose something."""
    declarations: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """By canonical name, of every tool, for a search that answers with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """What one provider takes of tools."""

    provider: str
    declare: Callable[[Declaration], JsonObject]
    wrap: Callable[[list[JsonObject]], list[JsonObject]] = list
    """Puts the declarations into what a request calls `tools`."""
    dialect: Dialect
    strict: Dialect | None = None
    wire_name: Callable[[str], str] = alias_of
    tools_max: int
    """Loaded tools in one request."""
    description_chars: int | None = None
    strict_tools_max: int | None = None
    strict_optional_max: int | None = None
    defers: bool = False
    """Whether a declared tool can be left for a search."""
    search_tool: JsonObject | None = None
    """The provider's own search, when asked for."""


def encode_tools(specs: Sequence[ToolSpec], options: ToolOptions, wire: ToolFormat) -> ToolBox:
    """Return the tools as the provider takes them; the same for the same specs, from a cache.

    Of specs of one name the first counts: a name twice is refused.
    """
    specs = list({spec.name: spec for spec in reversed(specs)}.values())[::-1]
    key = (wire.provider, options_key(options), tuple(spec.spec_hash for spec in specs))
    box = _BOXES.get(key)
    if box is None:
        if len(_BOXES) >= _BOXES_MAX:
            _BOXES.clear()
        box = _BOXES[key] = _encode(specs, options, wire)
    return ToolBox(
        [dict(tool) for tool in box.tools],
        box.names,
        box.codecs,
        box.declared,
        box.deferred,
        box.left_out,
        box.losses,
        box.declarations,
    )


def options_key(options: ToolOptions) -> tuple[object, ...]:
    """Return what makes two options the same."""
    deferred = None if options.deferred is None else frozenset(options.deferred)
    return (
        frozenset(options.strict),
        deferred,
        frozenset(options.loaded),
        options.server_search,
    )


_BOXES: dict[tuple[object, ...], ToolBox] = {}
_BOXES_MAX = 64
_ADAPTED: dict[tuple[str, str], Adapted] = {}


def _encode(specs: Sequence[ToolSpec], options: ToolOptions, wire: ToolFormat) -> ToolBox:
    waiting = _waiting(specs, options, wire.tools_max)
    own_search = wire.search_tool is not None and options.server_search
    defers = wire.defers and (own_search or any(spec.name == SEARCH for spec in specs))
    budget = _StrictBudget(wire, options.strict)
    tools: list[JsonObject] = [dict(wire.search_tool or {})] if own_search else []
    codecs: dict[str, Codec] = {}
    losses: dict[str, tuple[Loss, ...]] = {}
    declarations: dict[str, JsonObject] = {}
    for spec in specs:
        is_deferred = spec.name in waiting
        adapted, is_strict = budget.adapted(spec)
        codecs[spec.name] = Codec(spec, adapted.keys, is_strict)
        if adapted.losses:
            losses[spec.name] = adapted.losses
        declarations[spec.name] = wire.declare(
            Declaration(
                spec=spec,
                wire_name=wire.wire_name(spec.name),
                description=shortened(spec.description, wire.description_chars),
                adapted=adapted,
                is_strict=is_strict,
                is_deferred=is_deferred and defers,
                has_search=bool(waiting) and defers,
            )
        )
        if defers or not is_deferred:
            tools.append(declarations[spec.name])
    sent = [spec.name for spec in specs if defers or spec.name not in waiting]
    return ToolBox(
        wire.wrap(tools),
        WireNames(specs, wire.wire_name),
        codecs,
        frozenset(sent),
        tuple(name for name in sent if name in waiting),
        tuple(spec.name for spec in specs if spec.name not in sent),
        losses,
        declarations,
    )


def _waiting(specs: Sequence[ToolSpec], options: ToolOptions, most: int) -> frozenset[str]:
    """Return the names that are not loaded: deferred, or beyond what one request holds."""
    if options.deferred is None:
        asked = {
            spec.name
            for spec in specs
            if spec.surface_meta.deferred_loading and not spec.surface_meta.always_visible
        }
    else:
        asked = set(options.deferred)
    asked -= {*options.loaded, SEARCH}
    exposed = [spec.name for spec in specs if spec.name not in asked]
    # What was searched for was asked for; what comes last in the list matters least.
    first = {SEARCH, *options.loaded}
    exposed.sort(key=lambda name: name not in first)
    return frozenset(asked | set(exposed[most:]))


class _StrictBudget:
    """Strict schemas cost a request; when the budget is spent the rest is sent plain."""

    def __init__(self, wire: ToolFormat, wanted: Collection[str]) -> None:
        self._wire = wire
        self._wanted = frozenset(wanted)
        self._tools = 0
        self._optional = 0

    def adapted(self, spec: ToolSpec) -> tuple[Adapted, bool]:
        strict = self._wire.strict
        if strict is not None and spec.name in self._wanted:
            adapted = _adapted(spec, strict)
            if adapted.is_lossless and self._has_room(adapted):
                return adapted, True
        return _adapted(spec, self._wire.dialect), False

    def _has_room(self, adapted: Adapted) -> bool:
        most_tools, most_optional = self._wire.strict_tools_max, self._wire.strict_optional_max
        optional = _optional(adapted.schema)
        if most_tools is not None and self._tools >= most_tools:
            return False
        if most_optional is not None and self._optional + optional > most_optional:
            return False
        self._tools += 1
        self._optional += optional
        return True


def _optional(schema: JsonValue) -> int:
    """Return how many properties are optional or take several types, at any depth."""
    if isinstance(schema, list):
        return sum(_optional(inner) for inner in schema)
    if not isinstance(schema, dict):
        return 0
    properties, required = schema.get("properties"), schema.get("required")
    names = set(properties) if isinstance(properties, dict) else set[str]()
    needed = required if isinstance(required, list) else []
    unions = int("anyOf" in schema or isinstance(schema.get("type"), list))
    return (
        sum(name not in needed for name in names)
        + unions
        + sum(_optional(inner) for inner in schema.values())
    )


def _adapted(spec: ToolSpec, dialect: Dialect) -> Adapted:
    key = (spec.spec_hash, dialect.name)
    adapted = _ADAPTED.get(key)
    if adapted is None:
        if len(_ADAPTED) >= _CACHED_MAX:
            _ADAPTED.clear()
        adapted = _ADAPTED[key] = adapt(spec.input_schema, dialect)
    return adapted


def shortened(description: str, most: int | None) -> str:
    """Return a description cut at the end of a sentence; the whole of it stays in the search."""
    if most is None or len(description) <= most:
        return description
    kept = ""
    for sentence in _SENTENCE_END.split(description):
        if len(kept) + len(sentence) + 3 > most:
            break
        kept = f"{kept} {sentence}".strip()
    return f"{kept} …" if kept else description[: most - 1] + "…"
