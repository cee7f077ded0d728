"""Run the queues against each other, one after the other, in several rounds.

Is: the order, a fresh Redis for each, and what each found. Is not: what one does (`phases.py`),
nor what the figures mean (`ratios.py`). Above: `__main__.py`. Below: the programs in
`contenders/`.

Every round has all of them, each round in another order, so that a machine that grows slower
disturbs all alike; a ratio is taken within a round. Redis has the same program and options for all
and keeps nothing on disk.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from tests.bench.environments import BUILD, python_of
from tests.bench.phases import Figures, Plan
from tests.sources import ROOT
from toolrail.embedded import EmbeddedRedis
from toolrail.settings import own_environment

TOOLRAIL, ISOLATED, BARE = "toolrail", "toolrail isolated", "bare redis"
PREFORK = "celery"
"""What isolated tools are set against."""
PATIENCE_S = 180.0
Round = dict[str, Figures]


@dataclass(frozen=True, slots=True)
class Contender:
    """A program and how many calls it is given."""

    name: str
    command: tuple[str, ...]
    plan: Plan


def contenders(plan: Plan, *, peers: Sequence[str], isolated: int) -> list[Contender]:
    """Return who takes part; the environments of the peers stand afterwards.

    Args:
        plan: What each of them does; one with nothing to do is left out.
        peers: Names out of `PEERS`.
        isolated: Calls of Toolrail's process-isolated tool, and of Celery's prefork.
    """
    here = (sys.executable, "-m", "tests.bench.contenders.toolrail_queue")
    bare = (sys.executable, "-m", "tests.bench.contenders.bare_queue")
    found = [
        Contender(TOOLRAIL, (*here, "bench.echo"), plan),
        Contender(ISOLATED, (*here, "bench.echo_process"), Plan(drain=isolated)),
        Contender(BARE, bare, Plan(drain=plan.drain)),
    ]
    for peer in peers:
        command = (str(python_of(peer)), "-m", f"tests.bench.contenders.{peer}_queue")
        drain = isolated if peer == PREFORK and not plan.drain else plan.drain
        found.append(Contender(peer, command, replace(plan, drain=drain)))
    return [each for each in found if each.plan != Plan()]


def race(found: Sequence[Contender], number: int) -> Round:
    """Return one round's figures by contender; each round begins with another."""
    turn = number % len(found)
    order = (*found[turn:], *found[:turn])
    print(f"round {number + 1}", file=sys.stderr)
    return {each.name: run(each) for each in order}


def run(contender: Contender) -> Figures:
    """Return what one contender found on a fresh Redis."""
    print(f"  {contender.name}", file=sys.stderr, flush=True)
    log = BUILD / "logs" / f"{contender.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    program, *words = contender.command
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedRedis(Path(folder), append_only=False) as server,
        log.open("wb") as errors,
    ):
        process = subprocess.Popen(
            [program, *words[:2], "race", server.url, contender.plan.dumps(), *words[2:]],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env=own_environment(),
        )
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            _end(process)
    if process.returncode != 0:
        raise SystemExit(f"{contender.name} failed:\n{log.read_text(encoding='utf-8')[-2000:]}")
    figures: Figures = json.loads(output.splitlines()[-1])
    return figures


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Leave nothing of a program that was interrupted or got stuck."""
    if process.poll() is not None:
        return
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()  # first, lest it start its children again
    process.wait()
    for child in children:
        child.kill()
