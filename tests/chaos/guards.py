"""Take one guard of the product away at a time, and see that the tests of faults notice.

Is: which guard, how it is taken away in a copy, which test then fails and in which words. Is not:
the tests. Above: `__main__.py`; `tests/unit/test_chaos_guards.py` holds the texts in step with the
product. Below: pytest, in the copy.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.checker import Rule
from tests.sources import PRODUCT, ROOT
from toolrail.settings import own_environment

LUA = "tooling/toolrail/ledger/lua"
WORKER = "workers/toolrail_workers"
DOORBELLS = "tests/chaos/test_doorbells.py"
WORKERS_END = "tests/chaos/test_workers_end.py"
DISPATCHERS = "tests/chaos/test_dispatchers.py"
BOUND_S = 240.0
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Change:
    """One text of one file, replaced."""

    file: str
    old: str
    """Stands there exactly once."""
    new: str


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard, and who misses it."""

    name: str
    changes: tuple[Change, ...]
    test: str
    words: str
    """What the failing test says."""


def _guard(name: str, test: str, words: str, *changes: tuple[str, str, str]) -> Guard:
    return Guard(name, tuple(Change(*change) for change in changes), test, words)


GUARDS = (
    _guard(
        "a running call is claimed by its nonce only",
        f"{DOORBELLS}::test_doorbells_that_ring_three_times_more_start_nothing_twice",
        Rule.NO_SECOND_EFFECT,
        (f"{LUA}/claim.lua", "if call.nonce == ARGV[5] then return", "do return"),
    ),
    _guard(
        "a call that has ended is not claimed",
        f"{DOORBELLS}::test_doorbells_that_ring_three_times_more_start_nothing_twice",
        Rule.END_IS_LAST,
        (f"{LUA}/claim.lua", "if TERMINAL[call.state] then return { 'DUP_DONE' } end", ""),
        (
            f"{LUA}/claim.lua",
            "if call.state ~= 'queued' or call.attempt ~= ARGV[4] then return { 'STALE' } end",
            "",
        ),
    ),
    _guard(
        "a claim is journaled before the tool starts",
        f"{DOORBELLS}::test_a_forged_doorbell_opens_nothing",
        Rule.NO_EARLY_EFFECT,
        (
            f"{LUA}/claim.lua",
            "local seq, why = append('tool_call_started', 'info', 'worker:' .. ARGV[6],\n"
            "  call.key .. '.' .. call.attempt .. '.started', payload, call)",
            "local seq, why = 1, payload",
        ),
    ),
    _guard(
        "a finish needs the fence",
        f"{WORKERS_END}::test_a_frozen_workers_result_is_refused_and_journaled_late",
        Rule.ONE_END,
        (f"{LUA}/finish.lua", "if call.fence ~= ARGV[5] then return late() end", ""),
        (f"{LUA}/finish.lua", "  if call.state ~= 'running' then\n", "  if false then\n"),
    ),
    _guard(
        "a lost attempt is repeated only where that is safe",
        f"{WORKERS_END}::test_a_killed_workers_unsafe_call_is_not_started_again",
        Rule.NO_SECOND_EFFECT,
        (f"{WORKER}/lost.py", 'if call.fields.get("retry_safe") != "1":', "if False:"),
    ),
    _guard(
        "leases that ran out are swept",
        f"{WORKERS_END}::test_a_killed_workers_call_is_done_elsewhere_in_time",
        Rule.ALL_ANSWERED,
        (f"{WORKER}/reaper.py", '("leases", calls.leases),', ""),
    ),
    _guard(
        "lost doorbells are rung again",
        f"{DOORBELLS}::test_deleted_doorbells_are_rung_again",
        Rule.ALL_ANSWERED,
        (f"{WORKER}/reaper.py", '("doorbells", doorbells.sweep),', ""),
    ),
    _guard(
        "a doorbell's MAC is looked at",
        f"{DOORBELLS}::test_a_forged_doorbell_opens_nothing",
        "each forgery is told",
        (f"{WORKER}/runtime.py", "if not doorbell.verify(self._secret):", "if False:"),
    ),
    _guard(
        "a unit of the budget is reserved once",
        f"{DISPATCHERS}::test_fifty_processes_race_for_the_last_unit_and_one_gets_it",
        Rule.BUDGET_HELD,
        (
            f"{LUA}/_prelude.lua",
            "return cap < 0 or tonumber(redis.call('HGET', RUN, field) or 0) < cap",
            "return true",
        ),
    ),
    _guard(
        "an end is journaled with its outcome",
        f"{DOORBELLS}::test_a_forged_doorbell_opens_nothing",
        Rule.ONE_END,
        (
            f"{LUA}/finish.lua",
            "seq, why = append_listed(20, tonumber(ARGV[19]), ARGV[14], call) end",
            "seq = 1 end",
        ),
    ),
    _guard(
        "events are numbered one by one",
        f"{DOORBELLS}::test_a_forged_doorbell_opens_nothing",
        Rule.GAPLESS,
        (
            f"{LUA}/_prelude.lua",
            "local seq = redis.call('HINCRBY', RUN, 'seq', 1)",
            "local seq = redis.call('HINCRBY', RUN, 'seq', 2)",
        ),
    ),
)


def broken(text: str, change: Change) -> str:
    """Return the text with the guard gone.

    Raises:
        ValueError: The guard is written otherwise by now; write it here as it is there.
    """
    if text.count(change.old) != 1:
        raise ValueError(f"{change.file} does not say {change.old!r} once")
    return text.replace(change.old, change.new)


def is_missed(guard: Guard, folder: Path) -> bool:
    """Return whether its test fails in the expected words in a copy without the guard."""
    for name in (*PRODUCT, "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for change in guard.changes:
        file = folder / change.file
        file.write_text(broken(file.read_text(encoding="utf-8"), change), encoding="utf-8")
    path = ":".join(str(folder / name) for name in PRODUCT)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", guard.test],
        cwd=folder,
        env=own_environment() | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    return done.returncode != 0 and guard.words in done.stdout


def unmissed(folder: Path, guards: Sequence[Guard] = GUARDS) -> list[Guard]:
    """Return the guards that nobody misses; there should be none."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        places = [folder / str(number) for number in range(len(guards))]
        missed = list(pool.map(is_missed, guards, places))
    return [guard for guard, was in zip(guards, missed, strict=True) if not was]
