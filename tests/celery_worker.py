"""Run a real worker process with the fake runtime.

Is: start, ring, look, stop; used by the tests of pool and transport. Is not: the cluster of
`toolrail.testing`. Above: those tests. Below: `python -m celery`, `tests/fake_runtime.py`.
"""

import itertools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
import redis

from tests.fake_runtime import Deed, read_events
from tests.waiting import wait_until
from toolrail.doorbell import Envelopes
from toolrail.settings import Settings, own_environment
from toolrail_schemas import Doorbell

ROOT = Path(__file__).parents[1]
RUN_ID = "run_01ARZ3NDEKTSV4RRFFQ69G5FAV"
CLIENT_NAME = "toolrail-worker"
START_S = 20.0


class CeleryWorker:
    """One worker process on the queue `mcp`, and its doorbells."""

    def __init__(self, settings: Settings, *options: str, queue: str = "mcp") -> None:
        self.settings = settings
        self.queue = queue
        self.key = f"{settings.key_prefix}{queue}"
        self._options = options
        self._numbers = itertools.count(1)
        self._envelopes = Envelopes()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = settings.state_dir
        self._folder.mkdir(parents=True, exist_ok=True)

    def start(self, *, wait: bool = True) -> "CeleryWorker":
        """Start the process; return once it consumes."""
        command = [sys.executable, "-m", "celery", "-A", "tests.fake_runtime", "worker"]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-Q", self.queue, "-l", "INFO", *self._options],
                cwd=ROOT,
                env=own_environment() | self.settings.to_env(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if wait:
            wait_until(self._is_ready, "the worker is ready", timeout_s=START_S)
        return self

    def _is_ready(self) -> bool:
        if self.process.poll() is not None:
            pytest.fail(f"the worker ended with {self.process.returncode}:\n{self.log()}")
        return " ready." in self.log()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The process, running or not."""
        assert self._process is not None
        return self._process

    @property
    def log_file(self) -> Path:
        """Where standard output and error go."""
        return self._folder / "worker.log"

    def log(self) -> str:
        """Return what the worker logged."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def events(self, kind: str = "") -> list[str]:
        """Return the events of a kind, without the kind."""
        found = [event for event in read_events(self._folder) if event.startswith(kind)]
        return [event.removeprefix(kind).strip() for event in found]

    def open_gate(self) -> None:
        """Let gated doorbells finish."""
        (self._folder / "gate").touch()

    def resume(self) -> None:
        """End the pause that a doorbell began."""
        (self._folder / "resume").touch()

    def fail_at_start(self) -> None:
        """Make the runtime's `start` raise."""
        (self._folder / "fail-start").touch()

    def doorbell(self, deed: Deed) -> Doorbell:
        """Return a new doorbell."""
        key = f"{deed}{next(self._numbers):015x}"
        secret = self.settings.require_secret()
        return Doorbell.ring(secret, run_id=RUN_ID, call_key=key, attempt=1)

    def message(self, deed: Deed = Deed.NOTED) -> str:
        """Return the message of a new doorbell."""
        return self.message_of(self.doorbell(deed))

    def message_of(self, doorbell: Doorbell) -> str:
        """Return the message of a doorbell."""
        return self._envelopes.text(self.queue, doorbell)

    def ring(self, client: redis.Redis, deed: Deed = Deed.NOTED, *, count: int = 1) -> list[str]:
        """Push doorbells and return their call keys."""
        doorbells = [self.doorbell(deed) for _ in range(count)]
        texts = [self.message_of(doorbell) for doorbell in doorbells]
        client.lpush(self.key, *texts)
        return [doorbell.call_key for doorbell in doorbells]

    def wait_for(self, description: str, done: Callable[[], object], timeout_s: float = 15) -> None:
        """Wait for a condition while the worker lives, and show its log if it does not."""

        def check() -> object:
            if self.process.poll() is not None:
                pytest.fail(f"the worker ended with {self.process.returncode}:\n{self.log()}")
            return done()

        wait_until(check, description, timeout_s=timeout_s)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the worker."""
        self.process.send_signal(number)

    def wait_end(self, *, timeout_s: float = 20) -> int:
        """Return the exit code once the worker ended by itself."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the worker did not end:\n{self.log()}")

    def stop(self) -> int:
        """Drain the worker and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_end()

    def kill(self) -> None:
        """End the process if it still runs, at the end of a test."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class MakeWorker(Protocol):
    """What the `make_worker` fixture is."""

    def __call__(
        self, *options: str, settings: Settings | None = None, queue: str = "mcp"
    ) -> CeleryWorker:
        """Return a worker that is not started yet."""
        ...


@pytest.fixture
def make_worker(settings: Settings) -> Iterator[MakeWorker]:
    """Make workers; those that still run at the end of the test are killed."""
    made: list[CeleryWorker] = []

    usual = settings

    def make(*options: str, settings: Settings | None = None, queue: str = "mcp") -> CeleryWorker:
        worker = CeleryWorker(settings or usual, *options, queue=queue)
        made.append(worker)
        return worker

    yield make
    for worker in made:
        worker.kill()
