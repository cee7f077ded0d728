"""Weigh every term of every tool once, so that a query is a few additions.

Is: BM25F over the parts of documents (semantics 4.8). Is not: queries or an order (`ranking.py`).
Above: `ranking.py`. Below: `document.py`, `terms.py`.

A term's weight in a tool is the sum over the parts in which it occurs, each divided by how long
that part is against the average.
"""

import bisect
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from toolrail.search.document import PROSE, WEIGHTS, Document, Part
from toolrail.search.terms import loose, terms

_K1 = 1.2
_B_PROSE = 0.75
_B = 0.3
"""Parameters of BM25F. Source: semantics 4.8."""
_REPEATS_MAX = 3
"""A word that is repeated more often in one part tells nothing new; a stuffed text gains nothing.
Not in BM25F, whose length factor is soft for the only long text among short ones."""
Weights = Mapping[int, float]
"""By position of the document."""


class Index:
    """An immutable index over some tools."""

    def __init__(self, documents: Sequence[Document]) -> None:
        """Index the documents; their order does not matter to a search."""
        self.documents = tuple(sorted(documents, key=lambda document: document.name))
        cut = [
            {
                part: counts
                for part, text in document.parts.items()
                if (counts := Counter(terms(text)))
            }
            for document in self.documents
        ]
        average = _average_lengths(cut)
        weights: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for at, parts in enumerate(cut):
            for part, counts in parts.items():
                scale = WEIGHTS[part] / _length_factor(part, counts.total(), average[part])
                for term, count in counts.items():
                    weight = scale * min(count, _REPEATS_MAX)
                    weights[term][at] = weights[term].get(at, 0.0) + weight
        self._weights: Mapping[str, Weights] = dict(weights)
        self._scores: dict[str, Weights] = {}
        """Of terms that were asked for; there are no more than the vocabulary has."""
        self._vocabulary = sorted(weights)
        self._named: dict[str, int] = {}
        self._loosely_named: defaultdict[str, set[int]] = defaultdict(set)
        for at, document in enumerate(self.documents):
            for name in (document.name, *document.aliases):
                self._named.setdefault(name, at)
                self._loosely_named[loose(name)].add(at)
            self._loosely_named[loose(document.parts[Part.NAME])].add(at)

    def weights(self, term: str) -> Weights:
        """Return the documents that have a term, with its weight in each."""
        return self._weights.get(term, {})

    def _prefixed(self, prefix: str) -> Weights:
        """Return the documents with a longer term that starts so, with the largest weight."""
        found: dict[int, float] = {}
        start = bisect.bisect_right(self._vocabulary, prefix)
        for term in self._vocabulary[start:]:
            if not term.startswith(prefix):
                break
            for at, weight in self._weights[term].items():
                found[at] = max(found.get(at, 0.0), weight)
        return found

    def scores(self, term: str) -> Weights:
        """Return what a term adds to each document that has it: rare terms add more."""
        if term not in self._weights:
            return {}
        if term not in self._scores:
            self._scores[term] = self._scored(self.weights(term))
        return self._scores[term]

    def prefix_scores(self, prefix: str) -> Weights:
        """Return what longer terms that start so add to each document without the term itself."""
        exact = self.weights(prefix)
        longer = self._scored(self._prefixed(prefix))
        return {at: score for at, score in longer.items() if at not in exact}

    def _scored(self, weights: Weights) -> Weights:
        idf = math.log(1 + (len(self.documents) - len(weights) + 0.5) / (len(weights) + 0.5))
        return {at: idf * weight / (_K1 + weight) for at, weight in weights.items()}

    def named(self, name: str) -> int | None:
        """Return the document that has exactly this name or alias."""
        return self._named.get(name)

    def named_loosely(self, name: str) -> int | None:
        """Return the only document whose name is this one but for case and punctuation."""
        found = self._loosely_named.get(loose(name), set())
        return next(iter(found)) if len(found) == 1 else None


def _average_lengths(cut: Sequence[Mapping[Part, Counter[str]]]) -> Mapping[Part, float]:
    totals: Counter[Part] = Counter()
    holders: Counter[Part] = Counter()
    for parts in cut:
        for part, counts in parts.items():
            totals[part] += counts.total()
            holders[part] += 1
    return {part: totals[part] / holders[part] for part in totals}


def _length_factor(part: Part, length: int, average: float) -> float:
    b = _B_PROSE if part in PROSE else _B
    return 1 - b + b * length / average
