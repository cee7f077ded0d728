"""Describe a child process: how to start it, when it is ready, how it is stopped and restarted.

Is: plain data and the arithmetic of restarts; no process is started here. Is not: the process
itself (`child.py`).
Above: `child.py`, `supervisor.py`, `cluster.py`. Below: `toolrail.settings`.
"""

import enum
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from toolrail import exit_codes
from toolrail.settings import own_environment


class Stage(enum.IntEnum):
    """The order of start; the order of stop is the reverse.

    Redis outlives the workers, because a draining worker still finishes its calls in it; what
    hands in work (gateway, extensions) goes first, so that nothing new arrives meanwhile.
    """

    REDIS = 0
    WORKER = 1
    FRONT = 2


@dataclass(frozen=True)
class StartedIsReady:
    """The child is ready as soon as it runs: for programs that cannot tell."""


@dataclass(frozen=True)
class ReadyLine:
    """The child writes one line to a pipe whose descriptor it is given as `option N`.

    A pipe and not a log line: log formats change, and a log line can be forged by a tool's output.
    A pipe and not a key in Redis: it works before Redis is reachable and names no other process.
    """

    option: str = "--ready-fd"


@dataclass(frozen=True)
class ReadyProbe:
    """The child is ready when `wait` returns.

    For programs that are not ours, such as a Redis server that answers PING.
    """

    wait: Callable[[], Awaitable[None]]


Readiness = StartedIsReady | ReadyLine | ReadyProbe


@dataclass(frozen=True, kw_only=True)
class RestartPolicy:
    """How often a child that ended by itself is started again."""

    base_s: float = 0.5
    """Wait before the first restart; doubles with each further one inside the window."""

    cap_s: float = 15.0
    """Longest wait between two starts."""

    max_restarts: int = 5
    """Restarts inside one window; the next end makes the supervisor give the child up."""

    window_s: float = 60.0
    """An end older than this counts no longer, so a rare crash never adds up to a give-up."""

    hopeless_codes: frozenset[int] = frozenset({exit_codes.CONFIG})
    """Exit codes after which no restart can help."""


class RestartBudget:
    """Counts the ends of one child and says how long to wait, or that it is enough."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._ended_at: deque[float] = deque()

    def next_delay_s(self, now: float) -> float | None:
        """Record an end at `now` (any monotonic seconds); return the wait, None to give up."""
        self._ended_at.append(now)
        while self._ended_at[0] <= now - self._policy.window_s:
            self._ended_at.popleft()
        count = len(self._ended_at)
        if count > self._policy.max_restarts:
            return None
        return float(min(self._policy.cap_s, self._policy.base_s * 2 ** (count - 1)))


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """One child of the supervisor."""

    name: str
    """Unique in one supervisor; the prefix of its log lines, e.g. `mcp.1`."""

    argv: tuple[str, ...]
    """The program and its arguments; found on PATH when it has no slash."""

    env: dict[str, str] = field(default_factory=own_environment)
    """The child's whole environment; by default the supervisor's without Toolrail's settings."""

    cwd: str | None = None
    """Working directory; None is the supervisor's own."""

    stage: Stage = Stage.WORKER
    source: str | None = None
    """The queue a worker serves (`builtin`, `mcp`, `extension`); None for everything else."""

    readiness: Readiness = ReadyLine()
    ready_timeout_s: float = 60.0
    """A child that is not ready by then is killed, which counts as an end."""

    stop_grace_s: float = 30.0
    """Seconds from SIGTERM to SIGKILL; a worker drains in them."""

    restart: RestartPolicy = RestartPolicy()
    essential: bool = False
    """Giving this child up stops the whole cluster; others only fail the exit code."""


class ChildState(enum.Enum):
    """Where a child is in its life."""

    WAITING = "waiting"
    """Not started yet, or between an end and the next start."""
    STARTING = "starting"
    READY = "ready"
    STOPPED = "stopped"
    """Ended because it was asked to."""
    GIVEN_UP = "given_up"
    """Ended by itself more often than its restart policy allows."""
