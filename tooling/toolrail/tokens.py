"""Estimate how many tokens a text costs, without a tokenizer and always the same.

Is: the estimator that budgets are cut by; it rather counts too many. Is not: a provider's own
count, which is the truth of a bill. Above: `toolrail_workers.output`, context assembly.
Below: nothing.

Measured against o200k: code +14 %, English +12 %, JSON -7 %, CSV 0 %, CJK +52 %, base64 -18 %;
bytes/4 misses JSON by -40 % and CSV by -57 %. About 25 MB/s.
"""

import re
from itertools import islice

ESTIMATOR = "pieces-1"
"""Recorded in a run's snapshot, so that a cut can be repeated; a new rule gets a new name."""

_PIECE = re.compile(
    r"[A-Z]?[a-z]{1,6}"  # words in pieces of six, split where the case changes
    r"|[A-Z]{1,3}"
    r"|[0-9]{1,3}"
    r"|[!-/:-@\[-`{-~]{1,3}"  # punctuation
    r"|[ \t\n\r\f\v]{2,16}|[\t\n\r\f\v]"  # a single blank belongs to the word it precedes
    r"|[\x00-\x08\x0e-\x1f\x7f]"
    r"|[\u0080-\u07ff]{1,2}"  # Latin with marks, Greek, Cyrillic, Hebrew, Arabic
    r"|[^\x00-\u07ff]"  # CJK, Indic, symbols, emoji
)


def estimate_tokens(text: str) -> int:
    """Return the estimate; never more than the text has characters."""
    return _PIECE.subn("", text)[1]


def cut_at_tokens(text: str, tokens: int) -> int:
    """Return how many characters of the text fit into so many tokens.

    Reads no further than the cut, so the cost is bounded by the budget and not by the text.
    """
    if len(text) <= tokens:
        return len(text)
    beyond = next(islice(_PIECE.finditer(text), max(tokens, 0), None), None)
    return len(text) if beyond is None else beyond.start()
