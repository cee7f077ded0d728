"""Read surface metadata of tools, wherever a server or an operator wrote it.

Is: the only module that knows the metadata keys (D12), what they may say (D13), and how far an
untrusted writer is believed (D14). Is not: deferral by count or budget (the context gate), nor
policy; a resolved `SurfaceMeta` goes into the spec and is never parsed again.
Above: executors that build specs. Below: `toolrail_schemas`, `validation.py`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue

from toolrail.validation import validator_for
from toolrail_schemas import JsonObject, SurfaceMeta, canonical_json

CONTAINERS = ("x-tool-surface", "x_tool_surface", "x-lime", "x_lime")
"""Where a schema may hold metadata; the last two are read for interoperation, never written."""
META_KEY = "tool-surface"
OWN_META_KEY = "io.toolrail/surface"
"""Where a tool's `_meta` may hold it; the first also behind any reverse-DNS prefix."""
FIELD_KEYS: Mapping[str, tuple[str, ...]] = {
    "deferred_loading": ("deferred_loading", "deferredLoading", "defer_loading", "deferLoading"),
    "always_visible": ("always_visible", "alwaysVisible"),
    "allowed_callers": ("allowed_callers", "allowedCallers"),
    "tags": ("tags",),
    "input_examples": ("input_examples", "inputExamples"),
}
ASSISTANT_WORDS = frozenset({"direct", "model", "claude", "agent"})
CODE_EXECUTION = "code_execution"

MAX_TAGS = 16
MAX_TAG_CHARS = 32
MAX_CALLERS = 64
MAX_CALLER_CHARS = 256
MAX_EXAMPLES = 5
MAX_EXAMPLE_BYTES = 4096

Origin = Literal["override", "tool", "server_default"]


@dataclass(frozen=True, kw_only=True)
class Words:
    """What one writer said, normalised; None where it said nothing."""

    deferred_loading: bool | None = None
    always_visible: bool | None = None
    allowed_callers: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    input_examples: tuple[JsonObject, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The metadata of one tool, where each field came from, and what was not understood."""

    surface: SurfaceMeta
    origins: Mapping[str, Origin]
    """Of the fields that somebody set."""
    warnings: tuple[str, ...] = ()


def resolve_surface(
    *,
    schema: JsonObject,
    meta: Mapping[str, JsonValue] | None = None,
    override: Mapping[str, JsonValue] | None = None,
    default: Mapping[str, JsonValue] | None = None,
    trusted: bool,
) -> Resolved:
    """Return what holds for one tool; a field comes whole from the first writer that sets it.

    Args:
        schema: The tool's input schema, which may hold a container; examples must fit it.
        meta: The tool's MCP `_meta`.
        override: What the operator says of this tool.
        default: What the operator says of this server's tools that say nothing.
        trusted: Whether the tool's own words may loosen anything.
    """
    warnings: list[str] = []
    fallback = read_words(default, warnings)
    own = _own_words(meta, schema, warnings)
    if not trusted:
        own = _tightening_only(own, fallback)
    writers: tuple[tuple[Origin, Words], ...] = (
        ("override", read_words(override, warnings)),
        ("tool", own),
        ("server_default", fallback),
    )
    values: dict[str, object] = {}
    origins: dict[str, Origin] = {}
    for name in FIELD_KEYS:
        for origin, words in writers:
            value: object = getattr(words, name)
            if value is not None:
                values[name], origins[name] = value, origin
                break
    surface = SurfaceMeta.model_validate(values)
    examples = _fitting(surface.input_examples, schema, warnings)
    if examples != surface.input_examples:
        surface = surface.model_copy(update={"input_examples": examples})
    return Resolved(surface=surface, origins=origins, warnings=tuple(warnings))


def read_words(raw: Mapping[str, JsonValue] | None, warnings: list[str]) -> Words:
    """Return what `raw` says; what it says wrongly, or in no known key, becomes a warning."""
    if raw is None:
        return Words()
    known = {key for keys in FIELD_KEYS.values() for key in keys}
    warnings.extend(f"{key[:40]!r} is no surface key" for key in sorted(raw.keys() - known))
    return Words(
        deferred_loading=_flag(raw, "deferred_loading", warnings),
        always_visible=_flag(raw, "always_visible", warnings),
        allowed_callers=_callers(raw, warnings),
        tags=_tags(raw, warnings),
        input_examples=_examples(raw, warnings),
    )


def without_containers(schema: JsonObject) -> JsonObject:
    """Return the schema as a provider may see it: governance keys gone from its root."""
    return {key: value for key, value in schema.items() if key not in CONTAINERS}


def _own_words(
    meta: Mapping[str, JsonValue] | None, schema: JsonObject, warnings: list[str]
) -> Words:
    """Return the tool's own words: `_meta` first, then the schema's container, per field."""
    spoken = Words()
    for raw in (*_in_meta(meta or {}), *(schema.get(key) for key in CONTAINERS)):
        if raw is None:
            continue
        if not isinstance(raw, dict):
            warnings.append("surface metadata is not an object")
            continue
        words = read_words(raw, warnings)
        missing = {
            name: getattr(words, name) for name in FIELD_KEYS if getattr(spoken, name) is None
        }
        spoken = replace(spoken, **missing)
    return spoken


def _in_meta(meta: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    yield meta.get(OWN_META_KEY)
    yield meta.get(META_KEY)
    for key in sorted(meta):
        if key.endswith("/" + META_KEY):
            yield meta[key]


def _tightening_only(own: Words, fallback: Words) -> Words:
    """Return what an untrusted tool may say for itself (D14).

    Who may call is cut against the operator's default, which the tool's own list outranks.
    """
    callers = own.allowed_callers
    if callers is not None and fallback.allowed_callers is not None:
        callers = tuple(caller for caller in callers if caller in fallback.allowed_callers)
    return replace(
        own,
        deferred_loading=own.deferred_loading or None,
        always_visible=None if own.always_visible else own.always_visible,
        allowed_callers=callers,
    )


def _value(raw: Mapping[str, JsonValue], name: str) -> JsonValue:
    """Return what the first spelling of a field that is present says; None where none is."""
    return next((raw[key] for key in FIELD_KEYS[name] if raw.get(key) is not None), None)


def _flag(raw: Mapping[str, JsonValue], name: str, warnings: list[str]) -> bool | None:
    value = _value(raw, name)
    if value is None or isinstance(value, bool):
        return value
    warnings.append(f"{name} is not true or false")
    return None


def _callers(raw: Mapping[str, JsonValue], warnings: list[str]) -> tuple[str, ...] | None:
    """Return who may call; anything but null that names nobody means nobody (D13)."""
    value = _value(raw, "allowed_callers")
    if value is None:
        return None
    if not isinstance(value, list):
        warnings.append("allowed_callers is not a list, so nobody may call")
        return ()
    words = _words(value, MAX_CALLER_CHARS, "allowed_callers", warnings)
    return tuple(dict.fromkeys(_caller(word) for word in words))[:MAX_CALLERS]


def _caller(word: str) -> str:
    if word in ASSISTANT_WORDS:
        return "assistant"
    return CODE_EXECUTION if word.startswith(CODE_EXECUTION) else word


def _tags(raw: Mapping[str, JsonValue], warnings: list[str]) -> tuple[str, ...] | None:
    value = _value(raw, "tags")
    if value is None:
        return None
    if not isinstance(value, list):
        warnings.append("tags is not a list")
        return None
    tags = tuple(dict.fromkeys(_words(value, MAX_TAG_CHARS, "tags", warnings)))
    if len(tags) > MAX_TAGS:
        warnings.append(f"only {MAX_TAGS} of {len(tags)} tags are kept")
    return tags[:MAX_TAGS]


def _words(value: list[JsonValue], most_chars: int, name: str, warnings: list[str]) -> list[str]:
    words: list[str] = []
    for item in value:
        word = item.strip().lower() if isinstance(item, str) else ""
        if word and len(word) <= most_chars and word.isprintable():
            words.append(word)
        else:
            warnings.append(f"{name} holds something that is no short word")
    return words


def _examples(raw: Mapping[str, JsonValue], warnings: list[str]) -> tuple[JsonObject, ...] | None:
    value = _value(raw, "input_examples")
    if value is None:
        return None
    if not isinstance(value, list):
        warnings.append("input_examples is not a list")
        return None
    kept: list[JsonObject] = []
    for item in value:
        if item is None:
            continue
        if isinstance(item, dict) and _is_small(item):
            kept.append(item)
        else:
            warnings.append("an input example is no object, or too large")
    if len(kept) > MAX_EXAMPLES:
        warnings.append(f"only {MAX_EXAMPLES} of {len(kept)} input examples are kept")
    return tuple(kept[:MAX_EXAMPLES])


def _is_small(example: JsonObject) -> bool:
    try:
        return len(canonical_json(example)) <= MAX_EXAMPLE_BYTES
    except ValueError:
        return False


def _fitting(
    examples: tuple[JsonObject, ...], schema: JsonObject, warnings: list[str]
) -> tuple[JsonObject, ...]:
    """Return the examples that fit the schema; a provider refuses a request with one that not."""
    if not examples:
        return ()
    try:
        is_valid = validator_for(without_containers(schema)).is_valid
    except ValueError:
        warnings.append("input examples are dropped, because the schema is not usable")
        return ()
    kept = tuple(example for example in examples if is_valid(example))
    if len(kept) < len(examples):
        warnings.append("an input example does not fit the input schema")
    return kept
