"""Run builtin tools, ours and a team's own, each where its isolation says.

Is: the executor of source `builtin`. Is not: a tool, nor anything of claim, ledger or result.
Above: `execute.py`. Below: `toolrail.discovery`, `isolation`, `run_workspace.py`.

A defect of our own tool must be loud: it ends the run as `tool.internal_error`. A team's function
that raises is an answer, `tool.execution_failed`, of which the model reads the type only: its
author forgot to catch it, which is no reason to end somebody's run. A `ToolError` passes as it is.
"""

import asyncio
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from toolrail.discovery import BrokenPlugin, DiscoveredTools, discover_tools
from toolrail.logs import fields_of
from toolrail.settings import Settings, safe_environment
from toolrail.tools import (
    BlobStore,
    Isolation,
    SystemFailure,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
)
from toolrail_schemas import Source
from toolrail_workers.builtin.files_named import first_missing, workspace_refs
from toolrail_workers.builtin.library.asking import Asking
from toolrail_workers.builtin.library.facts import LedgerFacts
from toolrail_workers.builtin.library.library import Library
from toolrail_workers.builtin.library.stores import Stores, is_of_library, open_stores
from toolrail_workers.builtin.locks import ThreadLocks
from toolrail_workers.builtin.roots import Roots
from toolrail_workers.builtin.run_workspace import open_workspace
from toolrail_workers.executor import ClaimedCall, OwnerSpecs
from toolrail_workers.isolation.errors import ToolRaised
from toolrail_workers.isolation.process import ChildLimits, IsolatedCall, ProcessChildren
from toolrail_workers.isolation.thread import ThreadRunner
from toolrail_workers.output import refused_output
from toolrail_workers.sources import ExecutorParts

OWNER = "builtin"
THREAD_STOP_S = 4.0
"""How long a cancelled thread may take to notice; below the grace that `running.py` gives."""
KEEP_S = 5.0
"""Patience of a thread for its blob to be stored."""
_OURS = "toolrail_workers.builtin."
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_WIRE_ROOM_BYTES = 64 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinLimits:
    """How much of a worker builtin tools may use."""

    threads: int = 16
    children: int = 2
    calls_per_child: int = 1_000
    child_memory_bytes: int | None = None
    """Address space of a child; None: not limited."""


class BuiltinExecutor:
    """Runs the tools that are installed here."""

    source = Source.BUILTIN

    def __init__(
        self,
        *,
        found: DiscoveredTools,
        workspace_root: Path,
        limits: BuiltinLimits | None = None,
        roots: Roots | None = None,
        stores: Stores | None = None,
    ) -> None:
        """Prepare, start nothing.

        Args:
            found: The tools to run.
            workspace_root: Parent of the run workspaces, one directory per run id.
            limits: Threads and children.
            roots: Folders of a workspace; the usual ones when left out.
            stores: What runs read besides; without them, no tool of the library can run.
        """
        self._tools = found.tools
        self.broken: tuple[BrokenPlugin, ...] = found.broken
        """Plugins that could not be read; the worker runs without them."""
        self._workspace_root = workspace_root
        self._roots = roots or Roots()
        self._stores = stores
        self._locks = ThreadLocks()
        limits = limits or BuiltinLimits()
        self._threads = ThreadRunner(limits.threads)
        self._children = ProcessChildren(
            children=limits.children,
            calls_per_child=limits.calls_per_child,
            environment=_child_environment(),
            limits=ChildLimits(address_space_bytes=limits.child_memory_bytes),
            preload=("toolrail.tools",),
        )
        specs = tuple(tool.spec for tool in self._tools.values())
        self._owners = (OwnerSpecs(OWNER, specs),)

    @classmethod
    def from_settings(cls, settings: Settings, *, stores: Stores | None = None) -> Self:
        """Return the executor of the installed tools and of `settings.tool_modules`.

        Raises:
            ConfigError: Two installed tools share a name.
        """
        return cls(
            found=discover_tools(modules=settings.tool_modules),
            workspace_root=settings.workspace_root,
            limits=BuiltinLimits(
                threads=settings.thread_slots,
                children=settings.process_children,
                calls_per_child=settings.process_child_calls,
                child_memory_bytes=settings.process_memory_bytes,
            ),
            stores=stores,
        )

    async def start(self, on_change: Callable[[], None]) -> None:
        """Start the children if a tool needs them. What is installed does not change."""
        if any(tool.isolation is Isolation.PROCESS for tool in self._tools.values()):
            await self._children.start()

    async def stop(self) -> None:
        """Kill the children, let idle threads end, close the stores."""
        self._threads.close()
        await self._children.stop()
        if self._stores is not None:
            self._stores.close()

    def owners(self) -> Sequence[OwnerSpecs]:
        """Return the installed tools."""
        return self._owners

    async def execute(self, call: ClaimedCall, context: ToolContext) -> ToolOutput:
        """Run the call where its tool's isolation says.

        A cancelled call that had its effect before it noticed returns its output all the same.

        Raises:
            ToolError: The tool's own, `tool.invalid_arguments`, or `tool.execution_failed` for
                anything else that a team's function raised.
            SystemFailure: The tool's own, or `tool.internal_error` for a defect of ours.
        """
        tool = self._tools.get(call.tool)
        if tool is None:
            raise ToolError("tool.not_found", f"There is no tool {call.tool!r} on this worker.")
        try:
            match tool.isolation:
                case Isolation.LOOP:
                    output = await tool.run_async(call.arguments, context)
                case Isolation.THREAD:
                    output = await self._run_in_thread(tool, call, context)
                case Isolation.PROCESS:
                    output = await self._run_in_child(tool, call, context)
            return await self._with_real_files(tool, call, output)
        except ToolRaised as error:
            log.warning("tool.raised", extra=_fields(call) | {"raised": error.exception_type})
            raise
        except (ToolError, SystemFailure):
            raise
        # The edge between a worker and a tool's body: whatever comes is an answer.
        except Exception as error:
            log.warning("tool.raised", extra=_fields(call) | fields_of(error))
            raise _defect(tool, error) from error

    async def _run_in_thread(
        self, tool: Tool, call: ClaimedCall, context: ToolContext
    ) -> ToolOutput:
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        context = _for_thread(context, stop, loop)
        if self._stores is not None and is_of_library(tool):
            library = Library(
                stores=self._stores, run_id=call.run_id, tenant=call.tenant, ask=Asking(loop)
            )
            context = replace(context, library=library)
        work = asyncio.create_task(self._threads.run(lambda: self._work(tool, call, context)))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if work.done():
                raise
            # A thread cannot be killed; it asks before each effect whether it still may.
            stop.set()
            await asyncio.wait({work}, timeout=THREAD_STOP_S)
            if not work.done():
                log.warning("tool.thread_leaked", extra={"tool": call.tool})
                raise
            error = work.exception()
            if error is None:
                return work.result()
            if isinstance(error, SystemFailure):
                raise error from None
            raise
        finally:
            work.cancel()

    def _work(self, tool: Tool, call: ClaimedCall, context: ToolContext) -> ToolOutput:
        """Do a thread's part of the call: open the workspace, run the function."""
        context.check_alive()
        if not tool.takes_context or context.library is not None:
            return tool.run(call.arguments, context)
        with open_workspace(
            self._place_of(call.run_id),
            roots=self._roots,
            threads=self._locks,
            check_alive=context.check_alive,
        ) as workspace:
            context = replace(context, workspace=workspace, session=workspace.versions)
            return tool.run(call.arguments, context)

    async def _with_real_files(
        self, tool: Tool, call: ClaimedCall, output: ToolOutput
    ) -> ToolOutput:
        """Return the output of a team's tool only if the workspace files that it names exist."""
        refs = () if tool.function.__module__.startswith(_OURS) else workspace_refs(output)
        if not refs:
            return output
        try:
            missing = await self._threads.run(lambda: self._first_missing(call.run_id, refs))
        except asyncio.CancelledError:
            # The tool has done its work; that nobody could look does not undo it.
            return output
        return output if missing is None else refused_output(output, missing)

    def _first_missing(self, run_id: str, refs: Sequence[str]) -> str | None:
        with open_workspace(
            self._place_of(run_id),
            roots=self._roots,
            threads=self._locks,
            check_alive=lambda: None,
        ) as workspace:
            return first_missing(workspace, refs)

    def _place_of(self, run_id: str) -> Path:
        """Return where the run's workspace is; `trial.py` has one for every run."""
        if not _RUN_NAME.fullmatch(run_id):
            raise SystemFailure("tool.internal_error", "The run id cannot name a directory.")
        return self._workspace_root / run_id

    async def _run_in_child(
        self, tool: Tool, call: ClaimedCall, context: ToolContext
    ) -> ToolOutput:
        answer = await self._children.call(
            IsolatedCall(
                target=tool.target,
                arguments=call.arguments,
                context=context.to_wire(),
                timeout_s=call.timeout_s,
                # JSON may take twice the bytes of the text in it; the worker counts the text.
                max_output_bytes=2 * call.max_output_bytes + _WIRE_ROOM_BYTES,
                call_key=call.call_key,
            )
        )
        if not isinstance(answer, dict):
            raise SystemFailure("tool.internal_error", "A child answered with something else.")
        return ToolOutput.from_wire(answer)


def create_executor(parts: ExecutorParts) -> BuiltinExecutor:
    """Return the executor for a worker that serves the queue `builtin`.

    Raises:
        ConfigError: Two installed tools share a name.
    """
    settings = parts.settings
    facts = LedgerFacts(
        parts.redis,
        prefix=settings.key_prefix,
        ttl_s=settings.blob_ttl_s,
        deadline_s=settings.redis_timeout_s,
    )
    return BuiltinExecutor.from_settings(settings, stores=open_stores(settings, facts))


def _for_thread(
    context: ToolContext, stop: threading.Event, loop: asyncio.AbstractEventLoop
) -> ToolContext:
    """Return the context with what a blocking function may call from its thread."""
    return replace(
        context,
        stopped=stop.is_set,
        keep=None if context.store is None else _keeper(context.store, loop),
        on_progress=None if context.on_progress is None else _teller(context.on_progress, loop),
    )


def _keeper(store: BlobStore, loop: asyncio.AbstractEventLoop) -> Callable[[bytes, str], str]:
    def keep(data: bytes, mime: str) -> str:
        stored = asyncio.run_coroutine_threadsafe(store.put_blob(data, mime), loop)
        try:
            return stored.result(timeout=KEEP_S)
        finally:
            stored.cancel()

    return keep


def _teller(
    on_progress: Callable[[float, str], None], loop: asyncio.AbstractEventLoop
) -> Callable[[float, str], None]:
    def tell(fraction: float, message: str) -> None:
        loop.call_soon_threadsafe(on_progress, fraction, message)

    return tell


def _defect(tool: Tool, error: Exception) -> ToolError | SystemFailure:
    if tool.function.__module__.startswith(_OURS):
        return SystemFailure("tool.internal_error", "The tool failed by a defect of its own.")
    return ToolRaised(type(error).__name__)


def _fields(call: ClaimedCall) -> dict[str, object]:
    return {"tool": call.tool, "run_id": call.run_id, "call_key": call.call_key}


def _child_environment() -> dict[str, str]:
    """Return what a team's tool sees: nothing secret, and the import path of this worker."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**safe_environment(), "PYTHONPATH": path}
