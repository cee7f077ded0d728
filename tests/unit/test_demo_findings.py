"""The rows of the demo's table that are computed and not looked at."""

from toolrail_workers.demo.findings import check_books

BALANCED = {"accepted:mcp": 3, "finished:mcp:ok": 2, "open:mcp:queued": 1, "attempts:mcp:first": 2}


def test_books_that_balance_hold() -> None:
    """The row says how many calls there were."""
    finding = check_books(BALANCED)

    assert finding.holds
    assert finding.seen == "3 accepted, 2 finished, 1 open"


def test_a_lost_call_breaks_the_demo_and_is_named() -> None:
    """The command ends with another code than 0 when any row does not hold."""
    finding = check_books(BALANCED | {"open:mcp:queued": 0})

    assert not finding.holds
    assert finding.seen == "3 accepted, 2 finished, 0 open: 1 calls were lost or doubled"


def test_books_in_which_nothing_stands_prove_nothing() -> None:
    """A demo that looked under another prefix would balance as well."""
    assert not check_books({}).holds
