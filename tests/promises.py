"""Every promise of README.md, where it comes from and what is known to be missing.

Is: the list that `tests/unit/test_promises.py` keeps in step with README.md and with the tests that
carry `@promise("id")`. Is not: read by the product. Above: tests. Below: nothing.

To add one: a row here, a row in the README's table that ends in `<!-- promise: id -->` and links to
a test file, and `@promise("id")` on at least one test of that file.
"""

from dataclasses import dataclass

import pytest


@dataclass(frozen=True, kw_only=True)
class Promise:
    """One thing users may rely on.

    Attributes:
        text: What holds, in the words of the README row.
        source: The page and section that demands it.
        gaps: What is known not to hold yet; empty when nothing is known.
    """

    text: str
    source: str
    gaps: str = ""


PROMISES: dict[str, Promise] = {
    "settings.refused-by-name": Promise(
        text="A wrong setting stops the start and is named with its fault and its fix.",
        source="house style, Config and Errors",
    ),
    "redis.nothing-leaks": Promise(
        text="Every Redis key expires after its run ends, or is on the permanent list.",
        source="DESIGN 2.1",
        gaps="Checked after every test that uses Redis; the test behind this row checks the check.",
    ),
    "redis.embedded-leaves-nothing": Promise(
        text="An embedded Redis ends with the process that started it, even one that was killed.",
        source="DESIGN 8",
        gaps="Linux only; on macOS it ends when its parent stops it.",
    ),
}


def promise(promise_id: str) -> pytest.MarkDecorator:
    """Mark a test as a proof of the promise."""
    return pytest.mark.promise(promise_id)
