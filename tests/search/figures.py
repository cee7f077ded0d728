"""Measure how well a search finds what is meant.

Is: hit@3 and MRR per language, for ours and the baselines. Is not: speed (`tests/bench`).
Above: `__main__.py`, `tests/unit/test_search_quality.py`. Below: `labelled.py`, `baselines.py`.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.search.baselines import OneFieldBm25, Substrings
from tests.search.labelled import LabelledQuery, labelled_queries, labelled_tools
from toolrail.search.document import Document
from toolrail.search.index import Index
from toolrail.search.ranking import LIMIT_MAX, search

Finder = Callable[[str], list[str]]
HITS = 3


@dataclass(frozen=True, slots=True)
class Figures:
    """How well one search does in one language."""

    queries: int
    hit_at_3: float
    """Share of queries with a wanted tool among the first three."""
    mrr: float
    """Mean of 1 / rank of the first wanted tool."""


def finders() -> Mapping[str, Finder]:
    """Return the searches that are compared, by name."""
    tools = labelled_tools()
    index = Index(
        [
            Document.of_definition(
                tool.name,
                description=tool.description,
                input_schema={"properties": {name: {} for name in tool.parameters}},
            )
            for tool in tools
        ]
    )

    def ours(query: str) -> list[str]:
        return [hit.document.name for hit in search(index, query, limit=LIMIT_MAX).hits]

    return {
        "toolrail": ours,
        "one-field BM25": OneFieldBm25(tools),
        "substrings": Substrings(tools),
    }


def figures(finder: Finder) -> Mapping[str, Figures]:
    """Return the figures of one search, by language."""
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for query in labelled_queries():
        ranks[query.language].append(_rank(finder, query))
    return {
        language: Figures(
            queries=len(found),
            hit_at_3=sum(0 < rank <= HITS for rank in found) / len(found),
            mrr=sum(1 / rank for rank in found if rank) / len(found),
        )
        for language, found in ranks.items()
    }


def misses(finder: Finder) -> list[LabelledQuery]:
    """Return the queries whose tool is not among the first three."""
    return [query for query in labelled_queries() if not 0 < _rank(finder, query) <= HITS]


def _rank(finder: Finder, query: LabelledQuery) -> int:
    """Return the rank of the first wanted tool, from 1; 0 if there is none."""
    found = finder(query.text)
    return next((at for at, name in enumerate(found, 1) if name in query.wanted), 0)
