"""The test helpers that decide whether a test runs, waits or fails.

Is: tests of `waiting.py` and of `servers.absent`. Is not: a test of the product.
Above: nothing. Below: `tests/waiting.py`, `tests/servers.py`.
"""

import itertools

import pytest

from tests.servers import absent
from tests.waiting import await_until, wait_until


def test_an_absent_program_skips_a_test_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line names the package."""
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="needs `apt-get install x`"):
        absent("apt-get install x")


def test_an_absent_program_fails_a_test_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """CI must not pass by skipping."""
    monkeypatch.setenv("CI", "1")

    with pytest.raises(pytest.fail.Exception, match="needs `apt-get install x`"):
        absent("apt-get install x")


def test_waiting_ends_as_soon_as_the_condition_holds() -> None:
    """The predicate is asked again and again, and no more once it is true."""
    asked = itertools.count(1)

    wait_until(lambda: next(asked) == 3, "the third question")

    assert next(asked) == 4


async def test_waiting_on_the_loop_takes_coroutines_and_functions() -> None:
    """Both forms of predicate are asked until they hold."""
    asked = itertools.count(1)

    async def third() -> bool:
        return next(asked) == 3

    await await_until(third, "the third question")
    await await_until(lambda: next(asked) == 6, "the sixth question")

    assert next(asked) == 7


def test_waiting_in_vain_fails_with_what_was_waited_for() -> None:
    """The words tell more than a traceback."""
    with pytest.raises(pytest.fail.Exception, match=r"waited 0\.01 s for: rain"):
        wait_until(lambda: False, "rain", timeout_s=0.01)


async def test_waiting_in_vain_on_the_loop_fails_the_same_way() -> None:
    """One sentence for both."""
    with pytest.raises(pytest.fail.Exception, match=r"waited 0\.01 s for: rain"):
        await await_until(lambda: False, "rain", timeout_s=0.01)
