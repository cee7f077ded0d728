"""Read the labelled set.

Is: the two files as objects. Is not: a search.
Above: `figures.py`, `baselines.py`. Below: nothing.
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class LabelledTool:
    """A tool as its server documents it, in our words."""

    name: str
    parameters: tuple[str, ...]
    description: str


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A query and the tools of which one should come first."""

    language: str
    text: str
    wanted: frozenset[str]


def labelled_tools() -> list[LabelledTool]:
    """Return all tools, in the order of the file."""
    rows = (line.split("\t") for line in _lines("tools.tsv"))
    return [
        LabelledTool(name, tuple(filter(None, parameters.split(","))), description)
        for name, parameters, description in rows
    ]


def labelled_queries() -> list[LabelledQuery]:
    """Return all queries, in the order of the file."""
    rows = (line.split("\t") for line in _lines("queries.tsv"))
    return [
        LabelledQuery(language, text, frozenset(wanted.split("|")))
        for language, text, wanted in rows
    ]


def _lines(name: str) -> list[str]:
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()
