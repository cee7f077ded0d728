"""Count what one worker sees of its MCP servers.

Is: requests by method and outcome, restarts, changed lists, and what a scrape reads of a server's
state. Is not: the server's life (`server.py`).
Above: `executor.py`, `server.py`, `connection.py`. Below: `toolrail.metrics`.

The label `server` holds names from the servers file and nothing else: no tool, no word of a server.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, REQUEST_TIMEOUT
from prometheus_client import CollectorRegistry

from toolrail.metrics import catalogue
from toolrail.metrics.labels import OTHER, RESTART_REASON
from toolrail.metrics.registry import counter, gauge, histogram

NAME_CHARS = 64
"""Of a server's name in a label; a name that was refused may be of any length."""

LATE_SHARE = 0.9
"""The deadline of a request may have begun a little before it."""

TIMED_MAX = 64
"""Combinations of server, method and outcome with a histogram of their own, of 17 series each. Ten
servers need 60; with the rest a process stays below 2,000 series whatever its servers do."""

McpMethod = Literal["initialize", "tools/list", "tools/call", "ping"]


class McpOutcome(StrEnum):
    """How a request to a server ended."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    """It answered that the call failed, or that its arguments are wrong."""
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SYSTEM_ERROR = "system_error"
    """It went away, or its answer is no answer."""


@dataclass(slots=True)
class Request:
    """One request under way; who made it may say better how it ended."""

    outcome: McpOutcome = McpOutcome.OK


class McpMetrics:
    """The metrics of all MCP servers of a worker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.up = gauge(catalogue.MCP_SERVER_UP, registry)
        self.sessions = gauge(catalogue.MCP_SESSIONS, registry)
        self.inflight = gauge(catalogue.MCP_INFLIGHT, registry)
        self._durations = histogram(catalogue.MCP_OPERATION_DURATION, registry)
        self._timed: set[tuple[str, str, str]] = set()
        self.restarts = counter(catalogue.MCP_RESTARTS, registry)
        self.changes = counter(catalogue.MCP_TOOLS_CHANGED, registry)

    def took(self, server: str, method: McpMethod, outcome: McpOutcome, seconds: float) -> None:
        """Count one request; beyond `TIMED_MAX` kinds of them, under no server's name."""
        labels = server, method, outcome.value
        if labels not in self._timed:
            if len(self._timed) >= TIMED_MAX:
                labels = OTHER, method, outcome.value
            self._timed.add(labels)
        self._durations.labels(*labels).observe(seconds)

    def refused(self, server: str) -> None:
        """Show a server that this worker cannot run as down."""
        self.up.labels(server[:NAME_CHARS]).set(0)


class ServerMeter:
    """The metrics of one server; `metrics=None` counts nowhere that anybody looks."""

    def __init__(self, server: str, metrics: McpMetrics | None = None) -> None:
        self._metrics = metrics or McpMetrics(CollectorRegistry())
        self._server = server[:NAME_CHARS]
        for reason in RESTART_REASON.values:
            self._metrics.restarts.labels(self._server, reason)
        self._metrics.changes.labels(self._server)

    def watch(
        self, *, is_up: Callable[[], bool], sessions: Callable[[], int], inflight: Callable[[], int]
    ) -> None:
        """Show from now on what these say; they are asked on the thread of a scrape."""
        metrics, server = self._metrics, self._server
        metrics.up.labels(server).set_function(lambda: float(is_up()))
        metrics.sessions.labels(server).set_function(lambda: float(sessions()))
        metrics.inflight.labels(server).set_function(lambda: float(inflight()))

    def note_restart(self, reason: str) -> None:
        """Count a start after the first, by what ended the one before."""
        self._metrics.restarts.labels(self._server, reason).inc()

    def note_change(self) -> None:
        """Count a list of tools that is not what it had been."""
        self._metrics.changes.labels(self._server).inc()

    @contextmanager
    def request(self, method: McpMethod, *, timeout_s: float | None = None) -> Generator[Request]:
        """Time one request, and name how it ended.

        Args:
            method: What is asked.
            timeout_s: A cancellation after so long was the deadline, not somebody's wish.
        """
        began, request = time.perf_counter(), Request()
        try:
            yield request
        except BaseException as error:
            waited_s = time.perf_counter() - began
            is_late = timeout_s is not None and waited_s >= timeout_s * LATE_SHARE
            request.outcome = _outcome_of(error, is_late=is_late)
            raise
        finally:
            took_s = time.perf_counter() - began
            self._metrics.took(self._server, method, request.outcome, took_s)


def _outcome_of(error: BaseException, *, is_late: bool) -> McpOutcome:
    match error:
        case TimeoutError():
            return McpOutcome.TIMEOUT
        case asyncio.CancelledError():
            return McpOutcome.TIMEOUT if is_late else McpOutcome.CANCELLED
        case MCPError(code=code) if code == REQUEST_TIMEOUT:
            return McpOutcome.TIMEOUT
        case MCPError(code=code) if code == INVALID_PARAMS:
            return McpOutcome.TOOL_ERROR
        case _:
            return McpOutcome.SYSTEM_ERROR
