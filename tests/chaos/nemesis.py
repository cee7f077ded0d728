"""Hurt a whole cell again and again while clients work, and judge it afterwards.

Is: the load, a plan that a seed decides, and what each fault cost. Is not: the faults (`deeds.py`)
or the rules (`checker.py`). Above: `test_nemesis.py`, `make chaos`. Below: `rig.py`.
"""

import asyncio
import json
import random
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.chaos.checker import DOUBLES, LOSSES, Violation
from tests.chaos.clients import Caller, Client, open_client
from tests.chaos.deeds import DEEDS
from tests.chaos.records import Records, now_ms
from tests.chaos.rig import Rig, open_rig
from toolrail.errors import RedisUnavailable, WaitTimeout
from toolrail.tasks import end_task

WORKERS = ("builtin.1", "builtin.2", "mcp.1", "mcp.2", "extension.1", "extension.2")
CLIENTS = 3
LANES = 4
"""Calls that each client has open at once."""
RUN_CALLS = 40
"""After so many calls a lane's run is completed and another one opened."""
TOOLS = (
    "effects.once",
    "effects.again",
    "effects.isolated",
    "effects.rare",
    "mcp.effects.have",
    "ext.effects.have",
)
GAP_S = (0.4, 2.5)
PATIENCE_S = 45.0
"""A call that is not answered by then counts as lost."""


@dataclass(frozen=True, slots=True)
class Step:
    """One fault, and how long after the one before it begins."""

    gap_s: float
    name: str
    seed: int
    """Chooses whom it hurts."""


@dataclass(slots=True)
class Round:
    """One fault as it happened."""

    name: str
    begin_ms: int
    end_ms: int = 0


@dataclass
class Report:
    """What came of one run of the nemesis."""

    seed: int
    rounds: list[Round]
    records: Records
    violations: list[Violation]
    lasted_s: float
    answers: Counter[str] = field(default_factory=Counter[str])

    def rows(self) -> list[tuple[str, int, int, int, float, float]]:
        """Return per fault: name, rounds, lost, doubled, recovery p50 and max in seconds.

        A recovery lasts from the beginning of the fault until every call that was open while it
        lasted is answered.
        """
        spans = _spans(self.records)
        rows: list[tuple[str, int, int, int, float, float]] = []
        for name in DEEDS:
            rounds = [each for each in self.rounds if each.name == name]
            if not rounds:
                continue
            recoveries = [_recovery_s(each, spans) for each in rounds]
            hurt = {call for each in rounds for call in _open_during(each, spans)}
            lost = sum(v.rule in LOSSES and v.call_id in hurt for v in self.violations)
            doubled = sum(v.rule in DOUBLES and v.call_id in hurt for v in self.violations)
            p50 = statistics.median(recoveries)
            rows.append((name, len(rounds), lost, doubled, p50, max(recoveries)))
        return rows

    def keep(self, folder: Path) -> Path:
        """Write down the seed, what was broken and all there is about the calls concerned."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"seed-{self.seed}.json"
        hurt = {violation.call_id for violation in self.violations}
        events = {
            run_id: [asdict(event) for event in journal if event.call_id in hurt]
            for run_id, journal in self.records.journals.items()
        }
        effects = [asdict(each) for each in self.records.effects if each.call_id in hurt]
        told = [asdict(each) for each in self.records.answered if each.call_id in hurt]
        content = {
            "seed": self.seed,
            "lasted_s": self.lasted_s,
            "violations": [str(violation) for violation in self.violations],
            "rounds": [asdict(each) for each in self.rounds],
            "journals": {run_id: kept for run_id, kept in events.items() if kept},
            "effects": effects,
            "answered": told,
        }
        file.write_text(json.dumps(content, indent=1), encoding="utf-8")
        return file


def plan(seed: int, *, lasts_s: float, names: Sequence[str] = tuple(DEEDS)) -> list[Step]:
    """Return the faults of a seed: all kinds in a random order, then all in another, and so on."""
    rng = random.Random(seed)  # noqa: S311  # an order, no secret
    steps: list[Step] = []
    at_s = 0.0
    while True:
        for name in rng.sample(names, len(names)):
            gap_s = rng.uniform(*GAP_S)
            at_s += gap_s
            if at_s > lasts_s:
                return steps
            steps.append(Step(gap_s, name, rng.randrange(2**32)))


async def run_nemesis(
    folder: Path,
    *,
    seed: int,
    lasts_s: float,
    workers: Sequence[str] = WORKERS,
    program: Path | None = None,
) -> Report:
    """Hurt a fresh cell for so long, let it come to rest, and return what came of it.

    Args:
        folder: Of this run alone.
        seed: Decides the faults, whom they hurt and what the clients call.
        lasts_s: When the last fault begins, at the latest.
        workers: Of the cell.
        program: Of its Redis; None takes what an embedded one would.
    """
    async with open_rig(folder, *workers, extension=True, program=program) as rig:
        stop = asyncio.Event()
        names = [f"client.{number}" for number in range(1, CLIENTS + 1)]
        clients = [
            asyncio.create_task(_work(rig, name, random.Random(f"{seed} {name}"), stop))  # noqa: S311
            for name in names
        ]
        try:
            rounds = await _hurt(rig, plan(seed, lasts_s=lasts_s))
            rig.heal()
            stop.set()
            await asyncio.gather(*clients)
        finally:
            for client in clients:
                await end_task(client)
        await rig.rest()
        records, violations = rig.judge()
    answers = Counter(each.error_code for each in records.answered)
    return Report(seed, rounds, records, violations, lasts_s, answers)


async def _hurt(rig: Rig, steps: Iterable[Step]) -> list[Round]:
    rounds: list[Round] = []
    deeds: list[asyncio.Task[None]] = []
    for step in steps:
        await asyncio.sleep(step.gap_s)
        deeds.append(asyncio.create_task(_do(rig, step, rounds)))
    await asyncio.gather(*deeds)
    return rounds


async def _do(rig: Rig, step: Step, rounds: list[Round]) -> None:
    one = Round(step.name, now_ms())
    rounds.append(one)
    await DEEDS[step.name](rig, random.Random(step.seed))  # noqa: S311  # a choice, no secret
    one.end_ms = now_ms()


async def _work(rig: Rig, name: str, rng: random.Random, stop: asyncio.Event) -> None:
    """Be an agent service of several lanes until told to stop; then wait for what is open."""
    async with open_client(rig, name, tools=len(TOOLS)) as client:
        seeds = [rng.randrange(2**32) for _ in range(LANES)]
        await asyncio.gather(*(_lane(client, seed, stop) for seed in seeds))


async def _lane(client: Client, seed: int, stop: asyncio.Event) -> None:
    rng = random.Random(seed)  # noqa: S311  # a choice, no secret
    while not stop.is_set():
        caller = await client.open_run()
        for call_id in caller.ids(RUN_CALLS):
            if stop.is_set():
                break
            tool = rng.choice(TOOLS)
            pauses = {} if tool == "effects.rare" else _pauses(rng)
            try:
                await caller.call(call_id, tool, timeout_s=PATIENCE_S, **pauses)
            except WaitTimeout:
                continue
        await _complete(caller)


def _pauses(rng: random.Random) -> dict[str, float]:
    return {"before_s": rng.uniform(0, 0.2), "after_s": rng.uniform(0, 0.2)}


async def _complete(caller: Caller) -> None:
    while True:
        try:
            await caller.run.complete()
        except RedisUnavailable:
            continue
        return


def _spans(records: Records) -> dict[str, tuple[int, int]]:
    """Return from when to when each accepted call was open; for ever, if never answered."""
    answered = {each.call_id: each.at_ms for each in records.answered}
    return {
        each.call_id: (each.at_ms, answered.get(each.call_id, 2**62)) for each in records.accepted
    }


def _open_during(one: Round, spans: dict[str, tuple[int, int]]) -> list[str]:
    return [call for call, (a, b) in spans.items() if a <= one.end_ms and b >= one.begin_ms]


def _recovery_s(one: Round, spans: dict[str, tuple[int, int]]) -> float:
    ends = [spans[call][1] for call in _open_during(one, spans)]
    return (max(ends, default=one.end_ms) - one.begin_ms) / 1000
