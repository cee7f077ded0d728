"""Compare lines more and more leniently, and look blocks of lines up in a file quickly.

Is: the four tiers of semantics 5.5.2, one index per tier and file. Is not: a choice between
several places (`placing.py`).
Above: `placing.py`, `diverging.py`. Below: `indents.py`.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from enum import StrEnum

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b"
_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f"
_SPACES = "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_ASCII = str.maketrans(
    dict.fromkeys(_DASHES, "-")
    | dict.fromkeys(_SINGLE_QUOTES, "'")
    | dict.fromkeys(_DOUBLE_QUOTES, '"')
    | dict.fromkeys(_SPACES, " ")
)


class Match(StrEnum):
    """How lenient a patch may be matched."""

    STRICT = "strict"
    DEFAULT = "default"
    LENIENT = "lenient"


class Tier(StrEnum):
    """With what difference a block was found, strictest first."""

    EXACT = "exact"
    TRAILING_WS = "trailing_ws"
    UNICODE = "unicode"
    INDENT = "indent"

    def normal(self, text: str) -> str:
        """Return what is compared of a line at this tier."""
        if self is Tier.EXACT:
            return text
        if self is Tier.TRAILING_WS:
            return text.rstrip(" \t")
        plain = text if text.isascii() else unicodedata.normalize("NFC", text).translate(_ASCII)
        return plain.rstrip(" \t") if self is Tier.UNICODE else plain.strip(" \t")


TIERS_OF = {
    Match.STRICT: (Tier.EXACT,),
    Match.DEFAULT: (Tier.EXACT, Tier.TRAILING_WS, Tier.UNICODE),
    Match.LENIENT: tuple(Tier),
}


class Index:
    """The lines of a file, ready to be searched at each tier; built when first needed."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(lines)
        self._normal: dict[Tier, Sequence[str]] = {Tier.EXACT: self.lines}
        self._ends: dict[Tier, tuple[dict[str, int], dict[str, int]]] = {}
        """Per tier where each line stands first, and where last."""
        self._places: dict[tuple[Tier, str], Sequence[int]] = {}

    def normal(self, tier: Tier) -> Sequence[str]:
        """Return what is compared of each line."""
        if tier not in self._normal:
            self._normal[tier] = tuple(map(tier.normal, self.lines))
        return self._normal[tier]

    def places(self, tier: Tier, text: str) -> Sequence[int]:
        """Return where a line stands that equals `text` at a tier, as indices from 0."""
        wanted = tier.normal(text)
        key = (tier, wanted)
        if key not in self._places:
            self._places[key] = tuple(self._find(tier, wanted))
        return self._places[key]

    def _find(self, tier: Tier, wanted: str) -> Iterator[int]:
        lines = self.normal(tier)
        if tier not in self._ends:
            # Not a list of places per line: of most lines there is one, and none is asked for.
            firsts = dict(zip(reversed(lines), range(len(lines) - 1, -1, -1), strict=True))
            self._ends[tier] = firsts, dict(zip(lines, range(len(lines)), strict=True))
        firsts, lasts = self._ends[tier]
        at = firsts.get(wanted)
        while at is not None:
            yield at
            at = lines.index(wanted, at + 1) if at < lasts[wanted] else None

    def blocks(self, tier: Tier, block: Sequence[str]) -> Iterator[int]:
        """Yield each index at which all lines of a block follow one another, in order."""
        if not block or len(block) > len(self.lines):
            return
        wanted = tuple(map(tier.normal, block))
        # The rarest line leaves the fewest places to compare.
        rarest = min(range(len(block)), key=lambda at: len(self.places(tier, block[at])))
        lines = self.normal(tier)
        for place in self.places(tier, block[rarest]):
            start = place - rarest
            if start >= 0 and lines[start : start + len(wanted)] == wanted:
                yield start
