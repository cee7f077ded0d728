"""Two plain searches to be better than.

Is: counting of substrings, and BM25 over one field of whole words. Is not: tuned against us: both
see names, parameters and descriptions.
Above: `figures.py`. Below: `labelled.py`.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.search.labelled import LabelledTool

_WORD = re.compile(r"\w+")
_K1, _B = 1.2, 0.75


def _text(tool: LabelledTool) -> str:
    return " ".join((tool.name, tool.description, *tool.parameters)).lower()


class Substrings:
    """Counts how often each word of the query occurs anywhere in a tool."""

    def __init__(self, tools: Sequence[LabelledTool]) -> None:
        self._texts = {tool.name: _text(tool) for tool in tools}

    def __call__(self, query: str) -> list[str]:
        words = query.lower().split()
        counts = {name: sum(text.count(w) for w in words) for name, text in self._texts.items()}
        return sorted(filter(counts.get, counts), key=lambda name: (-counts[name], name))


class OneFieldBm25:
    """Okapi BM25 over all words of a tool."""

    def __init__(self, tools: Sequence[LabelledTool]) -> None:
        self._words = {tool.name: Counter(_WORD.findall(_text(tool))) for tool in tools}
        self._holders = Counter(word for words in self._words.values() for word in words)
        total = sum(words.total() for words in self._words.values())
        self._average = total / len(self._words)

    def __call__(self, query: str) -> list[str]:
        scores: defaultdict[str, float] = defaultdict(float)
        for word in _WORD.findall(query.lower()):
            held = self._holders[word]
            rarity = math.log(1 + (len(self._words) - held + 0.5) / (held + 0.5))
            for name, words in self._words.items():
                if count := words[word]:
                    length = 1 - _B + _B * words.total() / self._average
                    scores[name] += rarity * count * (_K1 + 1) / (count + _K1 * length)
        return sorted(scores, key=lambda name: (-scores[name], name))
