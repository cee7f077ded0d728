"""Cut text into the terms that are compared, the same way for tools and for queries.

Is: the tokeniser of semantics 4.8, and the plainer one of 5.8 for prose, over the same scripts.
Is not: weights (`document.py`) or meaning (`lexicon.py`).
Above: `index.py`, `query.py`, `toolrail.chat`. Below: nothing.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_CJK = (
    "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Han, Hiragana, Katakana, Bopomofo and Hangul: written without spaces between words."""
_PIECE = re.compile(rf"(?P<cjk>[{_CJK}]+)|(?P<word>(?:(?![{_CJK}])\w)+(?:-(?:(?![{_CJK}])\w)+)*)")
_PROSE = re.compile(rf"(?P<cjk>[{_CJK}]+)|(?P<word>(?:(?![{_CJK}_])\w)+)")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_CJK_WORD = re.compile(rf"[{_CJK}]+")
_BORDER = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)"
)
_PUNCTUATION = re.compile(r"[_\-\s]+")
_PLURAL_MIN_CHARS = 4

STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "for", "from", "get"),
        *("how", "i", "in", "is", "it", "its", "me", "my", "need", "of", "on", "or", "please"),
        *("some", "that", "the", "their", "this", "to", "tool", "use", "using", "want", "with"),
    )
)
"""Words of English prose that say nothing about a tool; dropped from long queries only."""


def terms(text: str) -> list[str]:
    """Return the terms of a text, in order, repeated as often as they occur.

    `readFile`, `read_file` and `read-file` all give `read`, `file` and `readfile`. A run of
    Chinese, Japanese or Korean gives its overlapping pairs of characters.
    """
    found: list[str] = []
    for piece in _PIECE.finditer(unicodedata.normalize("NFKC", text)):
        run = piece["cjk"]
        found.extend(_word(piece["word"]) if run is None else _pairs(run))
    return found


def words(text: str) -> list[str]:
    """Return the words of prose, in order, whole and folded (NFKC and casefold), nothing dropped.

    Each character of a Chinese, Japanese or Korean run gives itself with the one after it, the
    last one only itself: 魔法学 gives 魔法, 法学 and 学. So every character of such a run begins a
    word, and neighbours in the text are neighbours in the list.
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    found: list[str] = []
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    for piece in _PROSE.finditer(folded):
        run = piece["cjk"]
        if run is None:
            found.append(piece["word"])
        else:
            found += [run[at : at + 2] for at in range(len(run))]
    return found


def is_run(word: str) -> bool:
    """Return whether a word of `words` is of a run of Chinese, Japanese or Korean."""
    return _CJK_WORD.fullmatch(word) is not None


def runs(text: str) -> Iterator[str]:
    """Yield the runs of Chinese, Japanese or Korean characters of a text."""
    for piece in _PIECE.finditer(unicodedata.normalize("NFKC", text)):
        if piece["cjk"] is not None:
            yield piece["cjk"]


def loose(name: str) -> str:
    """Return a name without case and punctuation, for the loose match of `select:`."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(char for char in folded if char.isalnum())


@lru_cache(maxsize=65_536)
def _word(word: str) -> tuple[str, ...]:
    parts = [part for part in _PUNCTUATION.split(_BORDER.sub(" ", word)) if part]
    if len(parts) > 1:
        parts.append("".join(parts))
    return tuple(_singular(part.casefold()) for part in parts)


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for at in range(len(run) - 1):
        yield run[at : at + 2]


def _singular(word: str) -> str:
    if len(word) < _PLURAL_MIN_CHARS or not word.isascii() or word.endswith("ss"):
        return word
    if word.endswith("ies") and len(word) > _PLURAL_MIN_CHARS:
        return word[:-3] + "y"
    return word.removesuffix("s")
