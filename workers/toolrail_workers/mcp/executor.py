"""Run the calls of MCP tools, whichever server they belong to.

Is: the executor of source `mcp`: servers file in, owners out, calls to the right server.
Is not: one server's life (`server.py`).
Above: `runtime.py` through the port `toolrail_workers.executor`. Below: `server.py`, `mapping.py`.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from mcp.types import InputRequiredResult
from prometheus_client import CollectorRegistry

from toolrail.redaction import know
from toolrail.tools import ToolContext, ToolError, ToolOutput
from toolrail_schemas import Source
from toolrail_workers.executor import ClaimedCall, OwnerSpecs
from toolrail_workers.mcp.config import ServerConfig, ServersFile, load_servers_file
from toolrail_workers.mcp.launch import resolve_command
from toolrail_workers.mcp.listing import ListedTool
from toolrail_workers.mcp.mapping import needs_input, to_error, to_output
from toolrail_workers.mcp.metrics import McpMetrics
from toolrail_workers.mcp.progress import progress_reporter
from toolrail_workers.mcp.server import McpServer, Patience
from toolrail_workers.mcp.stdio import StdioTransport
from toolrail_workers.mcp.transport import ServerTransport
from toolrail_workers.sources import ExecutorParts


class McpExecutor:
    """All MCP servers of this worker."""

    source = Source.MCP

    def __init__(
        self,
        servers: ServersFile,
        *,
        make_transport: Callable[[ServerConfig], ServerTransport] | None = None,
        patience: Patience | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Prepare; nothing runs before `start`.

        Args:
            servers: What to run, from `load_servers_file`.
            make_transport: How to reach a server; stdio unless told otherwise.
            patience: Waits and retries of each server.
            registry: Gets the metrics of the servers; None counts for nobody.
        """
        metrics = McpMetrics(CollectorRegistry() if registry is None else registry)
        for refused in servers.refused:
            metrics.refused(refused.id)
        self._file = servers
        know(servers.secrets)
        self._patience = patience or Patience()
        self._on_change: Callable[[], None] = _nobody
        self._changed = asyncio.Event()
        self._owners: tuple[OwnerSpecs, ...] | None = None
        self._by_name: dict[str, tuple[McpServer, ListedTool]] = {}
        self._servers = [
            McpServer(
                config,
                make_transport=make_transport or stdio_transport,
                on_change=self._note_change,
                patience=self._patience,
                metrics=metrics,
            )
            for config in servers.servers
        ]

    @classmethod
    def from_file(
        cls, file: Path | None, *, registry: CollectorRegistry | None = None
    ) -> "McpExecutor":
        """Return the executor for a servers file; None means no servers.

        Raises:
            ConfigError: The file is wrong; names file, line and key.
        """
        servers = ServersFile() if file is None else load_servers_file(file)
        return cls(servers, registry=registry)

    async def start(self, on_change: Callable[[], None]) -> None:
        """Start every server; return without waiting for any."""
        self._on_change = on_change
        for server in self._servers:
            server.start()

    async def stop(self) -> None:
        """End every server and what it started."""
        await asyncio.gather(*(server.stop() for server in self._servers))

    def owners(self) -> Sequence[OwnerSpecs]:
        """Return the servers with their tools; an unusable one is listed with its reason."""
        if self._owners is None:
            running = [
                OwnerSpecs(
                    owner=server.config.id,
                    specs=server.listing.specs,
                    available=server.is_available,
                    reason=None if server.is_available else server.reason,
                )
                for server in self._servers
            ]
            refused = [
                OwnerSpecs(owner=server.id, specs=(), available=False, reason=server.reason)
                for server in self._file.refused
            ]
            self._owners = (*running, *refused)
        return self._owners

    async def execute(self, call: ClaimedCall, context: ToolContext) -> ToolOutput:
        """Run one call on its server.

        Raises:
            ToolError: The call failed; the run goes on.
        """
        server, tool = await self._find(call.tool, call.timeout_s)
        if tool.spec.spec_hash != call.spec_hash:
            raise ToolError(
                "tool.spec_changed",
                "The server changed this tool after the call was decided.",
                next_action="Look at its present description and call again.",
            )
        try:
            result = await server.call(
                tool.own_name,
                call.arguments,
                timeout_s=call.timeout_s,
                on_progress=progress_reporter(context),
            )
        except ToolError:
            raise
        except Exception as error:
            # The SDK raises many kinds here; whichever it is, a third party's failure must not
            # end the run (semantics 7).
            raise to_error(error, server=server.config.id, spec=tool.spec) from error
        if isinstance(result, InputRequiredResult):
            raise needs_input(server.config.id)
        return await to_output(result, server=server.config.id, context=context)

    async def _find(self, name: str, timeout_s: float) -> tuple[McpServer, ListedTool]:
        """Return the tool, waiting for servers whose first listing is still to come."""
        patience_s = min(self._patience.ready_s, timeout_s)
        try:
            async with asyncio.timeout(patience_s):
                while name not in self._index() and not self._settled():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        found = self._index().get(name)
        if found is None:
            raise ToolError(
                "mcp.server_unavailable",
                "No MCP server of this worker offers the tool now.",
                next_action="Try again later, or continue without it.",
            )
        return found

    def _settled(self) -> bool:
        return all(server.is_settled for server in self._servers)

    def _index(self) -> dict[str, tuple[McpServer, ListedTool]]:
        if not self._by_name:
            self._by_name = {
                tool.spec.name: (server, tool)
                for server in self._servers
                for tool in server.listing.tools
            }
        return self._by_name

    def _note_change(self) -> None:
        self._owners = None
        self._by_name = {}
        self._changed.set()
        self._on_change()


def create_executor(parts: ExecutorParts) -> McpExecutor:
    """Return the executor of this worker; nothing runs before `start`.

    Raises:
        ConfigError: The servers file is wrong; names file, line and key.
    """
    return McpExecutor.from_file(parts.settings.mcp_servers_file, registry=parts.registry)


def stdio_transport(config: ServerConfig) -> ServerTransport:
    """Return a transport that starts the server as configured, with this process's variables.

    Raises:
        CannotStart: The configuration refers to something that is not there.
    """
    return StdioTransport(resolve_command(config))


def _nobody() -> None:
    """Stand for the listener before there is one."""
