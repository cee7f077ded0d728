"""Answer a query: which tools, in which order.

Is: the rules of semantics 4.8 over an index. Is not: what loads or who may see it.
Above: `toolrail search`, `tool_search`. Below: `index.py`, `query.py`.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from toolrail.search.document import Document
from toolrail.search.index import Index, Weights
from toolrail.search.query import Query, parse_query

LIMIT_DEFAULT = 8
LIMIT_MAX = 20
_NAME_BONUS = 100.0
_PREFIX_WEIGHT = 0.5
_MEANT_WEIGHT = 0.7
"""A translated word is a guess, so it counts less than the word itself."""
_KEEP = 0.15
"""Hits below this share of the best are noise."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found."""

    document: Document
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer to a query."""

    hits: tuple[Hit, ...]
    total: int
    """How many there are beyond the limit too."""
    not_found: tuple[str, ...] = ()
    """Names of a `select:` that are no tool's."""


def search(
    index: Index, text: str, *, limit: int = LIMIT_DEFAULT, exposed: Collection[str] = ()
) -> Found:
    """Return the tools that a query means, best first; the same for the same tools, always.

    Args:
        index: Over the tools that the caller may see.
        text: The query. An empty one finds nothing; whether that is an error the caller decides.
        limit: Most hits returned; a `select:` returns all it names.
        exposed: Names of tools that the model has already; of equals they come last.
    """
    query = parse_query(text)
    if query.select:
        return _select(index, query)
    scores = _scores(index, query)
    named = index.named(query.text)
    if named is not None:
        scores[named] = scores.get(named, 0.0) + _NAME_BONUS
    floor = _KEEP * max((score for at, score in scores.items() if at != named), default=0.0)
    kept = [(at, score) for at, score in scores.items() if score > 0 and score >= floor]
    best = heapq.nsmallest(
        limit, kept, key=lambda pair: (-pair[1], index.documents[pair[0]].name in exposed, pair[0])
    )
    hits = tuple(Hit(index.documents[at], round(score, 4)) for at, score in best)
    return Found(hits=hits, total=len(kept))


def _select(index: Index, query: Query) -> Found:
    hits: dict[int, Hit] = {}
    missing: list[str] = []
    for name in query.select:
        at = index.named(name)
        at = index.named_loosely(name) if at is None else at
        if at is None:
            missing.append(name)
        else:
            hits.setdefault(at, Hit(index.documents[at], _NAME_BONUS))
    return Found(hits=tuple(hits.values()), total=len(hits), not_found=tuple(missing))


def _scores(index: Index, query: Query) -> dict[int, float]:
    scores: defaultdict[int, float] = defaultdict(float)
    for term in query.terms:
        _add(scores, index.scores(term), 1.0)
    for term in query.meant:
        if term not in query.terms:
            _add(scores, index.scores(term), _MEANT_WEIGHT)
    if query.prefix is not None:
        _add(scores, index.prefix_scores(query.prefix), _PREFIX_WEIGHT)
    if query.required or query.excluded:
        return {at: score for at, score in scores.items() if _allowed(index, query, at)}
    return scores


def _add(scores: dict[int, float], added: Weights, weight: float) -> None:
    for at, score in added.items():
        scores[at] += weight * score


def _allowed(index: Index, query: Query, at: int) -> bool:
    return all(at in index.weights(term) for term in query.required) and not any(
        at in index.weights(term) for term in query.excluded
    )
