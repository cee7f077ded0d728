"""Read the forms of a query: `select:`, words, `+required`, `-excluded`, a name.

Is: `Query`, parsed once. Is not: a search (`ranking.py`).
Above: `ranking.py`. Below: `terms.py`, `lexicon.py`.
"""

from dataclasses import dataclass

from toolrail.search.lexicon import english
from toolrail.search.terms import STOP_WORDS, runs, terms

QUERY_MAX_CHARS = 256
_SELECT = "select:"
_LONG = 3
"""Of a query with more terms than this, words that say nothing are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for."""

    text: str
    """Trimmed."""
    select: tuple[str, ...] = ()
    """With `select:`, the names asked for, in order; then the rest is empty."""
    terms: tuple[str, ...] = ()
    """Each once, in order."""
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    meant: tuple[str, ...] = ()
    """Terms in English that words of another language stand for; weaker than `terms`."""
    prefix: str | None = None
    """The last term, if it may be the start of a longer one."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return not (self.select or self.terms or self.required)


def parse_query(text: str) -> Query:
    """Return the query that a text asks."""
    text = text.strip()
    if text.casefold().startswith(_SELECT):
        names = (name.strip() for name in text[len(_SELECT) :].split(","))
        return Query(text=text, select=tuple(dict.fromkeys(name for name in names if name)))
    wanted: list[str] = []
    required: list[str] = []
    excluded: list[str] = []
    plain: list[str] = []
    for word in text.split():
        sign, rest = word[0], word[1:]
        if sign == "-" and rest:
            excluded += terms(rest)
        elif sign == "+" and rest:
            required += terms(rest)
            wanted += terms(rest)
        else:
            plain.append(word)
    told = " ".join(plain)
    wanted = [*_telling(terms(told)), *wanted]
    last = terms(plain[-1]) if plain and text.endswith(plain[-1]) else []
    return Query(
        text=text,
        terms=tuple(dict.fromkeys(wanted)),
        required=tuple(dict.fromkeys(required)),
        excluded=tuple(dict.fromkeys(excluded)),
        meant=tuple(dict.fromkeys(word for run in runs(told) for word in english(run))),
        prefix=last[-1] if last and len(last[-1]) >= 3 and last[-1].isascii() else None,
    )


def _telling(words: list[str]) -> list[str]:
    if len(words) <= _LONG:
        return words
    return [word for word in words if word not in STOP_WORDS] or words
