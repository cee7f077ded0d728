"""Read what a search of a chat asks for, the same for every store.

Is: `ChatQuery`: words, runs and quoted phrases as terms that a database can look up. Is not: the
database's own language for them (`sqlite.py`, `postgres.py`).
Above: the stores, `snippet.py`, `chat.search`. Below: `toolrail.search.terms`.

A word matches a whole word; the last one also the start of a longer one. A run of Chinese, Japanese
or Korean matches by its pairs of characters, a single character wherever it stands. What is quoted
must stand together, in order.
"""

import itertools
import re
from dataclasses import dataclass, replace

from toolrail.search.terms import is_run, words

QUERY_MAX_CHARS = 256
_QUOTES = '"\u201c\u201d\u201e\u00ab\u00bb\uff02\u300c\u300d\u300e\u300f'
"""Typewriter, English, German, French, full-width and CJK quotation marks; any closes any."""
_PART = re.compile(rf"[{_QUOTES}](?P<quoted>[^{_QUOTES}]*)[{_QUOTES}]|(?P<plain>[^\s{_QUOTES}]+)")


@dataclass(frozen=True, slots=True)
class Unit:
    """Words that must stand together, in order; mostly a single one."""

    words: tuple[str, ...]
    is_prefix: bool = False
    """Whether the last of them may be the start of a longer word."""
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class ChatQuery:
    """What is looked for."""

    units: tuple[Unit, ...]
    """Each once, in order; none for a query that has no word."""

    any_words: bool = False
    """Whether one of the units that are not quoted is enough."""

    @property
    def required(self) -> tuple[Unit, ...]:
        """The units that each match has."""
        return tuple(unit for unit in self.units if unit.is_quoted or not self.any_words)

    @property
    def optional(self) -> tuple[Unit, ...]:
        """The units of which a match has some; it has at least one when nothing is required."""
        return tuple(unit for unit in self.units if self.any_words and not unit.is_quoted)

    def relaxed(self) -> "ChatQuery | None":
        """Return the same query with any of its words enough; None where that changes nothing."""
        loose = sum(not unit.is_quoted for unit in self.units)
        if self.any_words or loose == 0 or len(self.units) == 1:
            return None
        return replace(self, any_words=True)


def parse_query(text: str) -> ChatQuery:
    """Return what a model's query asks for."""
    units: list[Unit] = []
    for part in _PART.finditer(text):
        quoted = part["quoted"]
        if quoted is not None:
            units += _phrase(words(quoted))
            continue
        is_last = not text[part.end() :].strip()
        units += _plain(words(part["plain"]), is_last=is_last)
    return ChatQuery(tuple(dict.fromkeys(units)))


def _plain(found: list[str], *, is_last: bool) -> list[Unit]:
    """Return `don't` and `read_file` as phrases, and of each run its pairs."""
    units: list[Unit] = []
    for is_cjk, group in itertools.groupby(found, is_run):
        part = list(group)
        if not is_cjk:
            units.append(Unit(tuple(part)))
            continue
        for at, word in enumerate(part):
            if _is_alone(part, at):
                units.append(Unit((word,), is_prefix=True))
            elif len(word) > 1:
                units.append(Unit((word,)))
    if is_last and found and not is_run(found[-1]):
        units[-1] = replace(units[-1], is_prefix=True)
    return units


def _phrase(found: list[str]) -> list[Unit]:
    if not found:
        return []
    # In a longer run, the character that ends this one starts another pair.
    is_open = is_run(found[-1]) and not _is_alone(found, len(found) - 1)
    is_single = is_run(found[-1]) and not is_open
    kept = found[:-1] if is_open else found
    return [Unit(tuple(kept), is_prefix=is_single, is_quoted=True)]


def _is_alone(found: list[str], at: int) -> bool:
    """Return whether a word is a run of one character, which any pair may begin with."""
    if len(found[at]) > 1 or not is_run(found[at]):
        return False
    return at == 0 or len(found[at - 1]) == 1 or not is_run(found[at - 1])
