"""The arithmetic of restarts: doubling waits, a cap, a window, an end.

Is: `RestartBudget` with a made-up clock. Is not: real processes (`tests/component`).
Above: nothing. Below: `toolrail.supervisor.spec`.
"""

from toolrail.supervisor.spec import RestartBudget, RestartPolicy

POLICY = RestartPolicy(base_s=1.0, cap_s=5.0, max_restarts=4, window_s=60.0)


def test_waits_double_up_to_the_cap_and_then_it_is_enough() -> None:
    """Four restarts in one window: 1, 2, 4, 5 seconds; the fifth end is the last."""
    budget = RestartBudget(POLICY)

    assert [budget.next_delay_s(now) for now in (0.0, 1.0, 2.0, 3.0, 4.0)] == [1, 2, 4, 5, None]


def test_rare_ends_never_add_up_to_a_give_up() -> None:
    """An end outside the window is forgotten."""
    budget = RestartBudget(POLICY)

    assert {budget.next_delay_s(hour * 3600.0) for hour in range(100)} == {1.0}
