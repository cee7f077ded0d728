"""Give questions short ids that can be pasted, and find the question a person means by one.

Is: the shortest unique beginnings of call keys, and back. Is not: reading of records.
Above: `approvals.py`, `approvals_decide.py`, `approvals_watch.py`. Below: `toolrail.sync`.

A short id is the beginning of a call key, a digest nobody chooses. It is looked for among the
questions that wait, then among those asked lately, so that it still works once it was decided.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Protocol

from toolrail.errors import ApprovalNotFound
from toolrail_schemas import escape_text

SHORT_CHARS = 8
"""Of a shown id at least: among 10,000 that wait, two share 8 once in a hundred lists."""
GIVEN_MIN_CHARS = 4
"""Of a typed id at least; fewer would soon mean another question."""
_WHOLE = re.compile(r"run_[0-9A-HJKMNP-TV-Z]{26}\.[0-9a-f]{16}")
_NAMED_MAX = 5


class ShortIds:
    """The questions that wait, by beginnings of their call keys."""

    def __init__(self, ids: Iterable[str]) -> None:
        """Take the approval ids among which a short one is to be unique."""
        self._keys = sorted(key_of(approval_id) for approval_id in ids)

    def of(self, approval_id: str) -> str:
        """Return the shortest beginning, of at least 8 characters, that no other key has."""
        key = key_of(approval_id)
        place = bisect_left(self._keys, key)
        others = [self._keys[n] for n in (place - 1, place + 1) if 0 <= n < len(self._keys)]
        others += [k for k in self._keys[place : place + 1] if k != key]
        if key in others:  # one key in two runs: only the whole id tells them apart
            return approval_id
        shared = max((_shared(key, other) for other in others), default=0)
        return key[: max(SHORT_CHARS, shared + 1)]


class Readable(Protocol):
    """What the search reads: `toolrail.sync.Approvals`."""

    def ids(self) -> list[str]:
        """Return the ids of all questions that wait."""
        ...

    def lately(self) -> list[str]:
        """Return the ids of questions asked lately."""
        ...


class Finder:
    """Finds the question that a person means; reads each list at most once."""

    def __init__(self, approvals: Readable) -> None:
        self._approvals = approvals

    @cached_property
    def waiting(self) -> list[str]:
        """The ids of all questions that wait."""
        return self._approvals.ids()

    @cached_property
    def short(self) -> ShortIds:
        """Their short ids."""
        return ShortIds(self.waiting)

    @cached_property
    def _lately(self) -> list[str]:
        return self._approvals.lately()

    def find(self, given: str) -> str:
        """Return the approval id for a whole one, or the beginning of it or of its call key.

        Raises:
            ApprovalNotFound: Nothing begins like this, more than one does, or it is too short.
        """
        text = given.strip()
        if is_whole(text):
            return text
        shown = escape_text(text[:80])
        if len(text) < GIVEN_MIN_CHARS:
            raise ApprovalNotFound(
                f"{shown!r} is too short for an id. Give at least {GIVEN_MIN_CHARS} characters of "
                "what `toolrail approvals list` shows."
            )
        found = beginning_with(text, self.waiting)
        if not found or len(text) < SHORT_CHARS:
            # What few characters mean changes fast: a decided question counts as well.
            found = sorted({*found, *beginning_with(text, self._lately)})
        if not found:
            raise ApprovalNotFound(
                f"No question that waits, or was asked lately, has an id that begins with "
                f"{shown!r}. `toolrail approvals list` shows those that wait."
            )
        if len(found) > 1:
            raise ApprovalNotFound(f"{shown!r} could be {listed(found)}. Give more of it.")
        return found[0]


def key_of(approval_id: str) -> str:
    """Return the call key in an approval id."""
    return approval_id.rpartition(".")[2]


def is_whole(text: str) -> bool:
    """Return whether the text is a whole id of a call: a run's id, a dot and a call key."""
    return _WHOLE.fullmatch(text) is not None


def beginning_with(text: str, ids: Sequence[str]) -> list[str]:
    """Return the ids that begin like this, or whose call keys do."""
    if text.startswith("run_"):
        return [approval_id for approval_id in ids if approval_id.startswith(text)]
    key = text.lower()
    return [approval_id for approval_id in ids if key_of(approval_id).startswith(key)]


def listed(found: Sequence[str]) -> str:
    """Return the call keys of several ids as a choice, the first five of them."""
    named = [key_of(approval_id) for approval_id in found[:_NAMED_MAX]]
    more = len(found) - len(named)
    return " or ".join(named) + (f", or one of {more} more" if more else "")


def _shared(left: str, right: str) -> int:
    same = (n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    return next(same, min(len(left), len(right)))
