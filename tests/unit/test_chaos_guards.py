"""The guards that `make chaos` takes away are still written as it expects them."""

from pathlib import Path

import pytest

from tests.chaos.guards import GUARDS, Guard, broken
from tests.sources import ROOT, functions, parse


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_every_guard_is_where_it_is_said_to_be(guard: Guard) -> None:
    """A guard that was rewritten is rewritten in the list too, or nobody would miss it."""
    for change in guard.changes:
        text = (ROOT / change.file).read_text(encoding="utf-8")

        assert broken(text, change) != text


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_every_guard_has_a_test_that_misses_it(guard: Guard) -> None:
    """The test that must fail exists."""
    file, _, name = guard.test.partition("::")

    assert name in {function.name for function in functions(parse(Path(file)))}
