"""What one statement of a policy layer looks like.

Is: rules, their effects and examples, and the field types they share with the layers. Is not: the
layers (`layers.py`), checking of the examples (`examples.py`).
Above: `layers.py`, `examples.py`. Below: `selectors.py`, `toolrail_schemas`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    field_validator,
    model_validator,
)

from toolrail.policy.selectors import (
    Effect,
    PolicyTextError,
    SelectorKind,
    Subject,
    parse_selector,
)
from toolrail_schemas import OnDenied, Source

LAYER_MAX_RULES: Final = 1000
"""Statements of one kind in one layer; a policy longer than this is generated, not read."""


class Say(StrEnum):
    """What a rule says about the tools it selects; the values of `effect` and of `[tools]`."""

    ALLOW = "allow"
    DENY = "deny"
    APPROVAL = "approval"
    """Allow, and a person must approve each call."""
    REQUIRE_APPROVAL = "require_approval"
    """A person must approve; grants nothing."""
    WAIVE = "waive"
    """No approval is needed for what weaker layers or the tool itself would ask for."""

    @property
    def grants(self) -> bool:
        """Whether a rule with this effect makes a tool usable."""
        return self in {Say.ALLOW, Say.APPROVAL}

    @property
    def phrase(self) -> str:
        """The effect as it reads after "may not"."""
        return _PHRASES[self]


_PHRASES: Final = {
    Say.ALLOW: "allow",
    Say.DENY: "deny",
    Say.APPROVAL: "allow, which approval includes",
    Say.REQUIRE_APPROVAL: "require approval",
    Say.WAIVE: "waive approvals",
}


def _checked(text: str) -> str:
    parse_selector(text)
    return text


def _as_set(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Sort and drop repeats: the lists are sets, and equal policies should hash equal."""
    return tuple(sorted(set(texts)))


SelectorText = Annotated[str, AfterValidator(_checked)]
SelectorSet = Annotated[
    tuple[SelectorText, ...], Field(max_length=LAYER_MAX_RULES), AfterValidator(_as_set)
]
LayerLabel = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}$")]
RuleId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
Sentence = Annotated[str, StringConstraints(min_length=1, max_length=300)]


class PolicyModel(BaseModel):
    """Frozen and closed; docstrings of fields become their descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Example(PolicyModel):
    """A tool, real or imagined, that a rule should or should not select.

    In TOML a bare string is its name; the source, server and extension follow from the name then.
    """

    tool: SelectorText
    source: Source | None = None
    tags: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    trusted: bool | None = None
    """Whether tags and effects are vouched for. Default: not for MCP and extension tools."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, data: JsonValue) -> JsonValue:
        return {"tool": data} if isinstance(data, str) else data

    @field_validator("tool")
    @classmethod
    def _is_name(cls, text: str) -> str:
        if parse_selector(text).kind is not SelectorKind.NAME:
            raise PolicyTextError(
                f"{text!r} is a selector, not the name of a tool", "Examples name one tool each."
            )
        return text

    def subject(self) -> Subject:
        """Return the example as selectors see it."""
        head, _, rest = self.tool.partition(".")
        owner = rest.partition(".")[0]
        source = self.source or _EXAMPLE_SOURCES.get(head, Source.BUILTIN)
        own = source in {Source.BUILTIN, Source.SKILL}
        return Subject(
            name=self.tool,
            source=source,
            server=owner if source is Source.MCP else None,
            extension=owner if source is Source.EXTENSION else None,
            tags=frozenset(self.tags),
            effects=frozenset(self.effects),
            trusted=own if self.trusted is None else self.trusted,
        )


_EXAMPLE_SOURCES: Final = {"mcp": Source.MCP, "ext": Source.EXTENSION}


class Rule(PolicyModel):
    """A named statement of a layer."""

    id: RuleId
    """Stable; stands in reasons, the journal and metrics."""
    effect: Say
    tools: Annotated[tuple[SelectorText, ...], Field(min_length=1, max_length=LAYER_MAX_RULES)]
    """The rule speaks about a tool when one of these selects it."""
    reason: Sentence | None = None
    """Told to people who ask why."""
    on_denied: OnDenied | None = None
    """Only with `effect = "deny"`. Default: as the layer says."""
    match: tuple[Example, ...] = ()
    """Tools this rule must select; checked when the file is loaded."""
    not_match: tuple[Example, ...] = ()
    """Tools this rule must not select."""

    @model_validator(mode="after")
    def _only_denials_are_denied(self) -> Self:
        if self.on_denied is not None and self.effect is not Say.DENY:
            raise PolicyTextError(
                f"does nothing, since the rule's effect is {self.effect}",
                "Remove on_denied.",
                key=("on_denied",),
            )
        return self


@dataclass(frozen=True, slots=True)
class Statement:
    """One selector of a layer with what is said about it.

    Attributes:
        rule: Id of the rule; made from the selector for lists and tables, as in `deny[mcp.*]`.
        key: Where it stands in the layer.
    """

    say: Say
    selector: str
    rule: str
    key: tuple[str | int, ...]
    on_denied: OnDenied | None = None
    reason: str | None = None
