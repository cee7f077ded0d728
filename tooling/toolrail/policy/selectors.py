"""Which tools a rule of a policy layer speaks about.

Is: the selector grammar, its check, and matching against what is known of a tool. Is not: what
a rule does with a match (`verdicts.py`). Above: `layers.py`, `verdicts.py`, `examples.py`.
Below: `toolrail_schemas`.

    workspace.read_file       the tool of exactly this canonical name; case counts
    workspace.*               names by pattern; `*` is the only wildcard and crosses dots
    *                         every tool
    source:mcp                builtin, mcp, extension or skill
    server:github             tools of one MCP server, exact id
    extension:dice            tools of one extension, exact id
    tag:calendar              tools that carry the tag
    effect:destructive        destructive, external or high_cost
    mcp.*, mcp.github.*       the same as source:mcp, server:github

Untrusted words never widen. Where a match would widen what a tool may do (`allow`, `waive`,
`allow_only`), tags and effects count only when the tool's metadata is trusted. Where it narrows
(`deny`, `require_approval`, budgets) they count in any case. What an untrusted tool says of its own
harmlessness is not even in its spec: `Annotations` holds the worst case.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from toolrail_schemas import Cost, SideEffect, Source, ToolSpec
from toolrail_schemas.names import check_name_text, check_native_name

SELECTOR_MAX_CHARS: Final = 256
TAG_MAX_CHARS: Final = 32

_OWNER_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_WHOLE_SERVER: Final = re.compile(r"mcp\.([A-Za-z0-9][A-Za-z0-9_-]{0,63})\.\*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_NAME_START: Final = re.compile(r"mcp\.|ext\.|\*|[a-z][a-z0-9_.]*\*")
_NAME_SHAPES: Final = (
    "Builtin names are like notes.add; others start with mcp.<server>. or ext.<extension>."
)
_WORD_BEFORE_COLON: Final = re.compile(r"([^.:*]*):(.*)", re.DOTALL)


class Effect(StrEnum):
    """What `effect:` selectors can name."""

    DESTRUCTIVE = "destructive"
    EXTERNAL = "external"
    HIGH_COST = "high_cost"


class SelectorKind(StrEnum):
    """How a selector finds tools; the part before the colon, or the shape of a name."""

    NAME = "name"
    GLOB = "glob"
    SOURCE = "source"
    SERVER = "server"
    EXTENSION = "extension"
    TAG = "tag"
    EFFECT = "effect"


_FOREIGN: Final = {"mcp": "server", "ext": "extension"}
PREFIXES: Final = ("source", "server", "extension", "tag", "effect")


class PolicyTextError(ValueError):
    """A policy says something that cannot be meant. Correct it as the message says.

    Attributes:
        problem: What is wrong, a sentence part that follows the key or selector.
        fix: What to write instead, a whole sentence.
        key: Where it stands, relative to the model that noticed.
    """

    def __init__(self, problem: str, fix: str, *, key: tuple[str | int, ...] = ()) -> None:
        super().__init__(problem, fix)
        self.problem = problem
        self.fix = fix
        self.key = key

    def __str__(self) -> str:
        return f"{self.problem}. {self.fix}"


class SelectorError(PolicyTextError):
    """A text is not a selector, or one that could never match a tool. Correct it as told."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What selectors can see of one tool, and of one call of it.

    Attributes:
        effects: As the annotations say, which for an untrusted tool is the worst case.
        dynamic: Effects of this call's arguments.
        trusted: Whether tags and effects may widen.
    """

    name: str
    source: Source
    server: str | None = None
    extension: str | None = None
    tags: frozenset[str] = frozenset()
    effects: frozenset[Effect] = frozenset()
    dynamic: frozenset[Effect] = frozenset()
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class Selector:
    """One checked selector. Make it with `parse_selector`.

    Attributes:
        text: As it was written.
        value: The part that is compared; for `mcp.github.*` it is `github`.
        parts: The literal pieces between the `*` of a glob.
    """

    text: str
    kind: SelectorKind
    value: str
    parts: tuple[str, ...] = ()

    @property
    def matches_everything(self) -> bool:
        """Whether this is `*` or a longer way to write it, such as `*.*`."""
        return self.kind is SelectorKind.GLOB and not self.value.strip("*.")

    def matches(self, subject: Subject, *, widening: bool) -> bool:
        """Return whether the selector speaks about the tool.

        Args:
            subject: The tool, with the effects of this call's arguments.
            widening: True where a match lets the tool do more; then tags and effects of
                untrusted metadata do not count.
        """
        match self.kind:
            case SelectorKind.NAME:
                return subject.name == self.value
            case SelectorKind.GLOB:
                return _glob(self.parts, subject.name)
            case SelectorKind.SOURCE:
                return subject.source == self.value
            case SelectorKind.SERVER:
                return subject.source is Source.MCP and subject.server == self.value
            case SelectorKind.EXTENSION:
                return subject.source is Source.EXTENSION and subject.extension == self.value
            case SelectorKind.TAG:
                return self.value in subject.tags and (subject.trusted or not widening)
            case SelectorKind.EFFECT:
                present = self.value in subject.effects or self.value in subject.dynamic
                return present and (subject.trusted or not widening)


def subject_of(
    spec: ToolSpec, *, trusted: bool | None = None, dynamic: frozenset[Effect] = frozenset()
) -> Subject:
    """Return what selectors see of a tool.

    Args:
        spec: The tool.
        trusted: Whether the operator vouches for tags and hints; None asks the annotations.
        dynamic: Effects of this call's arguments.
    """
    hints = spec.annotations
    vouched = hints.trusted if trusted is None else trusted
    effects: set[Effect] = set()
    if hints.destructive:
        effects.add(Effect.DESTRUCTIVE)
    if hints.side_effect is SideEffect.EXTERNAL:
        effects.add(Effect.EXTERNAL)
    if hints.cost is Cost.HIGH:
        effects.add(Effect.HIGH_COST)
    ref = spec.source_ref
    return Subject(
        name=spec.name,
        source=spec.source,
        server=None if ref is None else ref.server,
        extension=None if ref is None else ref.extension,
        tags=frozenset(spec.surface_meta.tags),
        effects=frozenset(effects),
        dynamic=dynamic,
        trusted=vouched,
    )


@lru_cache(maxsize=4096)
def parse_selector(text: str) -> Selector:
    """Return the selector that the text spells.

    Raises:
        SelectorError: It could never match a tool, or does not say what it seems to.
    """
    if not text or text != text.strip():
        raise SelectorError("is empty or has blanks around it", "Write it without blanks.")
    if len(text) > SELECTOR_MAX_CHARS:
        raise SelectorError(
            f"is longer than {SELECTOR_MAX_CHARS} characters", "Use a pattern with *."
        )
    if _CONTROL.search(text):
        raise SelectorError("holds a control character or half a surrogate pair", "Remove it.")
    prefixed = _WORD_BEFORE_COLON.fullmatch(text)
    if prefixed is not None:
        return _parse_prefixed(text, word=prefixed[1], value=prefixed[2])
    if "?" in text or "[" in text or "]" in text:
        raise SelectorError(
            "uses ? or [ ], which are not wildcards here",
            "Use * in their place; it is the only one.",
        )
    return _parse_glob(text) if "*" in text else _parse_name(text)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests the nearest known word, or lists all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names)}." if names else "There are none."


def _parse_prefixed(text: str, *, word: str, value: str) -> Selector:
    if word not in PREFIXES:
        raise SelectorError(f"has an unknown prefix {word!r}", did_you_mean(word, PREFIXES))
    kind = SelectorKind(word)
    if kind is SelectorKind.SOURCE:
        _check_member(value, [source.value for source in Source], "source")
    elif kind is SelectorKind.EFFECT:
        _check_member(value, [effect.value for effect in Effect], "effect")
    elif "*" in value or not value or value != value.strip():
        raise SelectorError(
            f"needs one exact id after {word}:", f"Write one selector for each {word}."
        )
    elif kind is not SelectorKind.TAG and not _OWNER_ID.fullmatch(value):
        raise _bad_owner(word, value)
    elif kind is SelectorKind.TAG and (value != value.lower() or len(value) > TAG_MAX_CHARS):
        raise SelectorError(
            f"names the tag {value!r}, which no tool can carry",
            f"Tags are lower case and at most {TAG_MAX_CHARS} characters.",
        )
    return Selector(text, kind, value)


def _bad_owner(noun: str, owner: str) -> SelectorError:
    return SelectorError(
        f"names the {noun} {owner!r}, an id none can have",
        "Ids are 1 to 64 letters, digits, _ and -, the first a letter or digit.",
    )


def _check_member(value: str, known: list[str], noun: str) -> None:
    if value not in known:
        raise SelectorError(f"names an unknown {noun} {value!r}", did_you_mean(value, known))


def _parse_glob(text: str) -> Selector:
    if text == "mcp.*":
        return Selector(text, SelectorKind.SOURCE, Source.MCP.value)
    whole_server = _WHOLE_SERVER.fullmatch(text)
    if whole_server is not None:
        return Selector(text, SelectorKind.SERVER, whole_server[1])
    if not _NAME_START.match(text):
        raise SelectorError("is a pattern no tool name fits", _NAME_SHAPES)
    return Selector(text, SelectorKind.GLOB, text, tuple(text.split("*")))


def _parse_name(text: str) -> Selector:
    head, dot, rest = text.partition(".")
    if head in _FOREIGN and dot:
        _check_foreign_name(text, head=head, rest=rest)
    else:
        try:
            check_native_name(text)
        except ValueError as error:
            raise SelectorError("is a name no tool can have", _NAME_SHAPES) from error
    return Selector(text, SelectorKind.NAME, text)


def _check_foreign_name(text: str, *, head: str, rest: str) -> None:
    noun = _FOREIGN[head]
    owner, _, tool = rest.partition(".")
    if not owner or not tool:
        raise SelectorError(
            f"is a name no tool can have, since they are {head}.<{noun}>.<tool>",
            f"Write {text.rstrip('.')}.* for every tool of the {noun}.",
        )
    if not _OWNER_ID.fullmatch(owner):
        raise _bad_owner(noun, owner)
    try:
        check_name_text(text)
    except ValueError as error:
        raise SelectorError("is a name no tool can have", f"Note that {error}.") from error


def _glob(parts: tuple[str, ...], name: str) -> bool:
    """Match in time linear in the name for each part; a regex could be made to backtrack."""
    first, *middle, last = parts
    if len(name) < len(first) + len(last):
        return False
    if not (name.startswith(first) and name.endswith(last)):
        return False
    position, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
