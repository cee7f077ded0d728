"""`make compose-smoke`: build the image, run the stack, drain it under load, leave nothing.

Is: preparations, the bound on time, and the report. Is not: the script (`story.py`). Above: the
Makefile. Below: `engine.py`, `images.py`, `story.py`.

Exit code 0: everything held, or this machine cannot run it, which one line says. 1: something did
not hold.
"""

import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest

from tests.smoke.engine import PREFIX, Engine, control_groups, why_not
from tests.smoke.images import build_base, build_ours, build_stand_ins
from tests.smoke.stack import Stack
from tests.smoke.story import Story

BOUND_S = 900
CALLS_PER_S = 16.0
SHOWN = ("worker-builtin", "worker-mcp", "worker-extension", "extension", "agent", "redis")


class Stopped(BaseException):
    """The time is over, or somebody stopped the test; what was started still has to end."""


def main() -> int:
    """Run everything and return the exit code."""
    reason = why_not()
    if reason is not None:
        say(f"compose-smoke is skipped: {reason}")
        return 0
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.alarm(BOUND_S)
    begun = time.monotonic()
    before = leftovers()
    with Engine() as engine:
        story = Story(Stack(engine, per_s=CALLS_PER_S), say, now)
        complete = False
        try:
            prepare(engine, story.stack, begun)
            story.play()
            if story.broken:
                show_logs(story.stack)
            story.say("The stack goes down.")
            story.stack.run_compose("down", "--volumes", "--timeout", "60")
            complete = True
        except subprocess.CalledProcessError as error:
            say(f"{error}\n{error.stdout}\n{error.stderr}")
        except (AssertionError, pytest.fail.Exception, Stopped) as error:
            say(f"{type(error).__name__}: {error}")
        if not complete:
            show_logs(story.stack)
        signal.alarm(0)
    story.check(
        "Everything that was started has ended; namespaces, mounts and folder are gone.",
        seen=leftovers() - before or "nothing is left",
        holds=not leftovers() - before,
    )
    held = len(story.findings) - len(story.broken)
    say(f"{held} hold, {len(story.broken)} broken, in {time.monotonic() - begun:.0f} s")
    return 0 if complete and not story.broken else 1


def prepare(engine: Engine, stack: Stack, begun: float) -> None:
    """Images and files are there, and the engine runs."""
    for what, build in (
        ("A Debian with Python", build_base),
        ("Our image", build_ours),
        ("Stand-ins for Redis, Prometheus and Alertmanager", build_stand_ins),
    ):
        say(f"{what} is built ({time.monotonic() - begun:.0f} s) ...")
        build(engine)
    stack.prepare()
    engine.start()


def leftovers() -> set[str]:
    """Return what a run could leave on the machine: namespaces, groups, mounts and folders."""
    namespaces = Path("/run/netns")
    found = {str(path) for path in namespaces.iterdir()} if namespaces.is_dir() else set[str]()
    found |= {str(path) for path in control_groups()}
    found |= {str(path) for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")}
    mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    return found | {line.split(" ")[1] for line in mounts if PREFIX in line}


def show_logs(stack: Stack) -> None:
    """Print the last words of the services, for whoever has to find out."""
    for service in SHOWN:
        try:
            say(stack.logs(service))
        except subprocess.CalledProcessError as error:
            say(f"{service}: {error.stderr}")


def stop(number: int, frame: FrameType | None) -> NoReturn:
    """End the script, not the clean-up."""
    for each in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(signal.Signals(number).name)


def now() -> datetime:
    """Return the time, as the containers' logs have it."""
    return datetime.fromtimestamp(time.time(), UTC)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
