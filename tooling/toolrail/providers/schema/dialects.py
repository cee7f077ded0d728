"""List what each provider's API takes of JSON Schema, with the date it was last looked at.

Is: data, one table per provider and mode; a refusal seen in the field is mended here. Is not: code
that applies it (`fit.py`). Above: `fit.py`, `adapting.py`. Below: nothing.

Source: providers.md 1.2 to 1.4 and 3.4, read 2026-11-30 from SDKs, documentation and public
threads; no live call was made.
"""

import re
from dataclasses import dataclass
from typing import Literal

_COMMON_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_STRICT_FORBIDS = frozenset(
    {
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "not",
        "default",
        "examples",
    }
)
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one API takes. The defaults are the most tolerant."""

    name: str
    dated: str
    """The day the table was last compared with its sources."""
    key: re.Pattern[str]
    """What a property may be called."""
    adapts: bool = True
    """Whether anything has to be changed at all."""
    described: frozenset[str] = frozenset()
    """Keywords that are refused: told in the description instead."""
    dropped: frozenset[str] = frozenset()
    """Keywords that are refused and mean nothing to a model."""
    formats: frozenset[str] | None = None
    """Values of `format`; None takes any."""
    patterns: Literal["any", "plain", "none"] = "any"
    """`plain`: no look-around, and Python's engine must compile it."""
    pattern_properties: bool = True
    type_lists: Literal["any", "scalars", "none"] = "any"
    """Whether `type` may be a list; `scalars`: only without object and array."""
    enums: Literal["any", "strings"] = "any"
    """`strings`: not empty, of `type: string`."""
    enum_max: int | None = None
    tuples: bool = False
    """Whether `prefixItems` is understood."""
    all_of: bool = True
    const: bool = True
    booleans: bool = True
    """Whether `false` may stand for a schema."""
    typed: bool = False
    """Every object and array has to say that it is one."""
    closed: bool = False
    """Objects take no keys but the declared; the API sees to it (strict)."""
    all_required: bool = False
    """Every property is required, and optional ones may be null (strict)."""
    known_required: bool = False
    """`required` may only name declared properties."""
    properties_max: int | None = None
    depth_max: int | None = None
    """Levels of objects and arrays."""
    min_items_max: int | None = None
    """Largest `minItems`."""

    @property
    def is_strict(self) -> bool:
        """Whether the API forces the model to fit the schema."""
        return self.closed


OPENAI = Dialect(
    name="openai",
    dated="2026-11-30",
    key=re.compile(r".{1,64}\Z", re.DOTALL),
    patterns="plain",
)
OPENAI_STRICT = Dialect(
    name="openai_strict",
    dated="2026-11-30",
    key=re.compile(r".{1,64}\Z", re.DOTALL),
    described=_STRICT_FORBIDS,
    formats=_COMMON_FORMATS,
    patterns="plain",
    pattern_properties=False,
    type_lists="scalars",
    enum_max=1000,
    all_of=False,
    const=False,
    booleans=False,
    typed=True,
    closed=True,
    all_required=True,
    known_required=True,
    properties_max=5000,
    depth_max=10,
)
ANTHROPIC = Dialect(
    name="anthropic",
    dated="2026-11-30",
    key=re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z"),
    tuples=True,
)
ANTHROPIC_STRICT = Dialect(
    name="anthropic_strict",
    dated="2026-11-30",
    key=re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z"),
    described=_STRICT_FORBIDS | _NUMBERS | {"minLength", "maxLength", "maxItems"},
    formats=_COMMON_FORMATS | {"uri"},
    patterns="none",
    pattern_properties=False,
    type_lists="scalars",
    enum_max=1000,
    all_of=False,
    const=False,
    booleans=False,
    typed=True,
    closed=True,
    known_required=True,
    properties_max=5000,
    depth_max=10,
    min_items_max=1,
)
GEMINI = Dialect(
    name="gemini",
    dated="2026-11-30",
    key=re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}\Z"),
    described=(_STRICT_FORBIDS | _NUMBERS | {"minLength", "maxLength"}) - {"minimum", "maximum"},
    dropped=frozenset({"deprecated", "readOnly", "writeOnly"}),
    formats=frozenset({"date-time", "date", "time"}),
    patterns="none",
    pattern_properties=False,
    type_lists="none",
    enums="strings",
    enum_max=500,
    all_of=False,
    const=False,
    booleans=False,
    typed=True,
    known_required=True,
    depth_max=9,
)
PLAIN = Dialect(name="plain", dated="2026-11-30", key=re.compile(r"", re.DOTALL), adapts=False)
"""Any JSON Schema, as it is: what an MCP client gets."""
