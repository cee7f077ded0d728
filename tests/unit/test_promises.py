"""README promises, declared promises and the tests that prove them are one set.

Is: a check of sources, without importing any test. Is not: a proof of a promise.
Above: nothing. Below: README.md, `tests/promises.py`, `tests/sources.py`.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.promises import PROMISES
from tests.sources import dotted, functions, parse, python_files, read

ROW = re.compile(r"^(?P<row>.*)<!-- promise: (?P<id>[a-z0-9.-]+) -->", re.MULTILINE)
LINK = re.compile(r"\]\((tests/[\w/.-]+\.py)\)")


def promised() -> dict[str, str]:
    """Return promise id -> README row."""
    return {match["id"]: match["row"] for match in ROW.finditer(read(Path("README.md")))}


def proofs() -> dict[str, set[str]]:
    """Return promise id -> files with a test that carries it."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in python_files("tests"):
        for function in functions(parse(file)):
            for mark in function.decorator_list:
                match mark:
                    case ast.Call(func=func, args=[ast.Constant(value=str(promise_id))]) if (
                        dotted(func).split(".")[-1] == "promise"
                    ):
                        found[promise_id].add(file.as_posix())
                    case _:
                        pass
    return found


def test_the_readme_and_the_list_promise_the_same() -> None:
    """A row without an entry has no source; an entry without a row is told to nobody."""
    assert promised().keys() == PROMISES.keys()


def test_every_promise_has_a_test() -> None:
    """What no test carries is not promised."""
    assert PROMISES.keys() - proofs().keys() == set()


def test_every_promise_a_test_carries_is_declared() -> None:
    """A typing error in an id must not look like a proof."""
    assert proofs().keys() - PROMISES.keys() == set()


def test_every_readme_row_links_to_a_file_that_proves_it() -> None:
    """A reader can follow the row to its test."""
    found = proofs()
    wrong = [
        promise_id
        for promise_id, row in promised().items()
        if not found[promise_id].intersection(LINK.findall(row))
    ]

    assert wrong == []


def test_every_promise_names_its_source_and_speaks_in_a_sentence() -> None:
    """The list is read by people who did not write it."""
    for promise_id, promise in PROMISES.items():
        assert promise.source, promise_id
        assert promise.text.endswith("."), promise_id
