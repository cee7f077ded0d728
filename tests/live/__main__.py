"""Watch a real cell while everything goes wrong: `make dashboards-live`, a minute and a half.

Is: a calm phase, the faults, the check of every panel, rule, total and page, and a picture of each
dashboard in build/dashboards. Is not: part of `make test`; .ci/run has a step for it.
Above: nothing. Below: `world.py`, `faults.py`, `judge.py`, `draw.py`.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live import faults, judge
from tests.live.draw import draw_sheet
from tests.live.panels import Shown, show_panels
from tests.live.servers import Haste, now
from tests.live.world import World, open_world
from tests.sources import ROOT

CALM_S = 4.0
Story = Callable[[World], Coroutine[None, None, None]]
OUTPUT = ROOT / "build" / "dashboards"
TITLES = {"toolrail-overview": "Toolrail / Overview", "toolrail-source": "Toolrail / Source detail"}


@dataclass
class Script:
    """The phases, in order, and when they were."""

    world: World
    marks: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    findings: list[judge.Finding] = field(default_factory=list[judge.Finding])

    def mark(self, what: str) -> None:
        """Note that something begins now."""
        at = now() - self.world.start
        self.marks.append((at, what))
        print(f"  {at:5.1f} s  {what}", flush=True)

    async def together(self, *stories: Story) -> None:
        """Tell several stories at once, each to its end; one that goes wrong is a finding."""
        await asyncio.gather(*(self._tell(story) for story in stories))

    async def _tell(self, story: Story) -> None:
        begun, wrong = now(), ""
        try:
            await story(self.world)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # it is a finding
            wrong = f"{type(error).__name__}: {error}"
        seen = f"after {now() - begun:.1f} s {wrong}"
        print(f"          {story.__name__}: {seen}", flush=True)
        self.findings.append(judge.Finding(f"{story.__name__} is over", not wrong, seen))

    async def play(self) -> float:
        """Play all phases; return when the calm one ended."""
        world = self.world
        await faults.tools_are_known(world)
        async with faults.usual_traffic(world):
            self.mark("calm")
            await asyncio.sleep(CALM_S)
            calm = now()
            self.mark("outcomes, decisions, servers, extension, full slots")
            await self.together(
                faults.every_outcome,
                faults.every_decision,
                faults.servers_misbehave,
                faults.the_extension_dies,
                faults.a_worker_is_drained,
                faults.slots_run_out,
            )
            self.mark("workers die")
            await self.together(faults.workers_die, faults.a_doorbell_is_lost)
            self.mark("a worker freezes")
            await self.together(faults.a_frozen_worker_wakes)
            self.mark("memory runs short")
            await self.together(faults.memory_runs_short)
        self.mark("books, disk, source without workers")
        await self.together(faults.operators_are_needed)
        self.mark("exporter freezes")
        await self.together(faults.the_exporter_freezes)
        self.mark("Redis freezes")
        await self.together(faults.redis_freezes)
        self.mark("quiet again")
        await world.until(lambda: not world.prometheus.firing() & faults.PAGED, "all clear")
        await world.scraped()
        return calm


async def main() -> int:
    """Return 0 when every claim holds."""
    with tempfile.TemporaryDirectory() as folder:
        print("A cell, Prometheus and Alertmanager are started.", flush=True)
        async with open_world(Path(folder), haste=Haste()) as world:
            script = Script(world)
            calm = await script.play()
            start, end = world.start, now()
            shown = await asyncio.to_thread(show_panels, world.prometheus, start, end)
            findings = [
                *script.findings,
                *judge.judge_panels(shown, calm),
                *judge.judge_rules(world, start, end, faults.FIRED),
                *await judge.judge_truth(world),
                *judge.judge_pages(world, sorted(faults.PAGED)),
            ]
            draw(shown, start, script.marks)
    print(f"Refused of the usual traffic: {dict(faults.refused)}")
    return tell(findings)


def run() -> int:
    """Return the exit code; without the servers there is nothing to see, which is no failure."""
    try:
        return asyncio.run(main())
    except pytest.skip.Exception as reason:
        print(f"skipped: {reason}")
        return 0


def draw(shown: Sequence[Shown], start: float, marks: Sequence[tuple[float, str]]) -> None:
    """Write one picture per dashboard, of the second one per source."""
    story = ", ".join(f"{at:.0f} s {what}" for at, what in marks)
    for board, source in sorted({(one.panel.board, one.source) for one in shown}):
        some = [one for one in shown if (one.panel.board, one.source) == (board, source)]
        name = f"{board}-{source}" if source else board
        title = f"{TITLES[board]} {source}\n{story}"
        draw_sheet(some, OUTPUT / f"{name}.png", title=title, start=start)
    print(f"Pictures: {OUTPUT.relative_to(ROOT)}/*.png")


def tell(findings: Sequence[judge.Finding]) -> int:
    """Print what was claimed and seen; return the exit code."""
    for finding in findings:
        print(f"{'holds ' if finding.holds else 'BROKEN'}  {finding.claim}: {finding.seen}")
    return 0 if all(finding.holds for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(run())
