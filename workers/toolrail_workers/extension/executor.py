"""Run the calls of tools that extensions offer: ask, wait, give up, tell.

Is: the executor of source `extension`. Is not: the extension's code, which never runs here; nor
the steps in Redis (`toolrail.extension.bridge`).
Above: `runtime.py` through the port `toolrail_workers.executor`. Below: the modules of this folder.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry
from redis.asyncio import Redis

from toolrail.errors import ToolrailError
from toolrail.extension.bridge import Asked, Bridge, CallId
from toolrail.redis_io import connect
from toolrail.settings import Settings
from toolrail.tasks import end_task
from toolrail.tools import ToolContext, ToolError, ToolOutput
from toolrail_schemas import ExecuteCall, Source
from toolrail_workers.executor import ClaimedCall, OwnerSpecs
from toolrail_workers.extension.directory import Directory, OfferedTool
from toolrail_workers.extension.faults import (
    invalid_output,
    outcome_unknown,
    overloaded,
    too_slow,
    unavailable,
)
from toolrail_workers.extension.listener import Listener
from toolrail_workers.extension.mailbox import (
    AnswersConflict,
    AskedOf,
    Counts,
    Mailbox,
    SessionGone,
    Waiting,
)
from toolrail_workers.extension.metrics import SessionMetrics
from toolrail_workers.extension.reading import read_answer
from toolrail_workers.sources import ExecutorParts

log = logging.getLogger(__name__)

CALL_MAX_S = 120.0
"""Source: semantics 9.3."""
POLL_S = 1.0
WITHDRAW_S = 2.0
"""A call that is being stopped must be done with in a few seconds, Redis or no Redis."""
HEAD_START_S = 0.25
"""We give up this much before the call's own deadline, so that there is time to ask whether its
function had started; a tenth of the time of a call that has little."""


class ExtensionExecutor:
    """All extensions, as one worker asks them."""

    source = Source.EXTENSION

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        *,
        worker: str,
        poll_s: float = POLL_S,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Prepare; nothing is read before `start`.

        Args:
            redis: For short commands.
            settings: Where Redis is.
            worker: Id of this worker; answers to it come in a stream of its own.
            poll_s: How often it is looked whether extensions died.
            registry: Gets the metrics of their sessions; None counts for nobody.
        """
        self._settings = settings
        self._worker = worker
        self._poll_s = poll_s
        self._metrics = SessionMetrics(CollectorRegistry() if registry is None else registry)
        self._bridge = Bridge(
            redis, prefix=settings.key_prefix, deadline_s=settings.redis_timeout_s
        )
        self._directory = Directory()
        self._mailbox = Mailbox()
        self._blocking: Redis | None = None
        self._listener: Listener | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def counts(self) -> Counts:
        """Answers that nobody was given."""
        return self._mailbox.counts

    async def start(self, on_change: Callable[[], None]) -> None:
        """Know the extensions that are there, and hear from them from now on."""
        self._blocking = connect(
            self._settings.redis_url,
            timeout_s=self._settings.redis_timeout_s,
            name=f"toolrail-{self._worker}",
            blocking=True,
        )
        self._listener = Listener(
            self._bridge,
            self._blocking,
            worker=self._worker,
            directory=self._directory,
            mailbox=self._mailbox,
            poll_s=self._poll_s,
            metrics=self._metrics,
        )
        await self._listener.start(on_change)
        self._task = asyncio.get_running_loop().create_task(
            self._listener.run(), name="toolrail-extensions"
        )

    async def stop(self) -> None:
        """Hear nothing more; who still waits was cancelled before, or is now at its deadline."""
        await end_task(self._task)
        if self._blocking is not None:
            await self._blocking.aclose()

    def owners(self) -> Sequence[OwnerSpecs]:
        """Return every listed extension; one that is not connected is listed with its reason."""
        return self._directory.owners()

    async def execute(self, call: ClaimedCall, context: ToolContext) -> ToolOutput:
        """Ask the extension and return its answer.

        Raises:
            ToolError: The call failed; the run goes on.
        """
        try:
            return await self._execute(call)
        except _NotTaken:
            # Its session had just ended. Nothing was begun, so a newer one may be asked.
            await self._look()
        try:
            return await self._execute(call)
        except _NotTaken:
            raise unavailable(_extension_of(call.tool)) from None

    async def _execute(self, call: ClaimedCall) -> ToolOutput:
        tool = self._directory.find(call.tool)
        session = None if tool is None else self._directory.session(tool.extension)
        if tool is None or session is None:
            raise _NotTaken
        if tool.spec.spec_hash != call.spec_hash:
            raise ToolError(
                "tool.spec_changed",
                "The extension changed this tool after the call was decided.",
                next_action="Look at its present description and call again.",
            )
        asked = AskedOf(tool.extension, session, CallId(call.call_key, call.attempt))
        with self._mailbox.expect(asked) as waiting:
            text = await self._answer(asked, waiting, tool, call)
        return read_answer(text, asked.call, tool.spec, max_bytes=call.max_output_bytes)

    async def _look(self) -> None:
        assert self._listener is not None
        try:
            await self._listener.look()
        except ToolrailError as error:
            log.warning("extension.no_look", extra={"reason": error.message})

    async def _answer(
        self, asked: AskedOf, waiting: Waiting, tool: OfferedTool, call: ClaimedCall
    ) -> str:
        """Return the extension's answer, or raise what came instead of it."""
        timeout_s = _timeout_s(tool, call)
        try:
            async with asyncio.timeout(timeout_s):
                await self._ask(asked, tool, call, timeout_s)
                return await waiting.answer()
        except TimeoutError:
            return await self._give_up(asked, waiting, timeout_s)
        except AnswersConflict:
            raise invalid_output("twice, and differently; its session was closed") from None
        except SessionGone:
            raise await self._lost(asked, tool) from None
        except asyncio.CancelledError:
            await self._withdraw(asked)
            raise

    async def _ask(
        self, asked: AskedOf, tool: OfferedTool, call: ClaimedCall, timeout_s: float
    ) -> None:
        assert self._listener is not None
        message = ExecuteCall(
            call_key=call.call_key,
            tool=tool.own_name,
            arguments=call.arguments,
            deadline=self._listener.redis_now_ms() + int(timeout_s * 1000),
            attempt=call.attempt,
        )
        try:
            outcome = await self._bridge.ask(
                asked.extension, asked.session, message, worker=self._worker
            )
        except ToolrailError as error:
            # It may have been taken all the same.
            log.warning("extension.ask_failed", extra={"reason": error.message})
            raise await self._lost(asked, tool) from None
        match outcome:
            case Asked.ASKED:
                return
            case Asked.UNAVAILABLE:
                raise _NotTaken
            case Asked.OVERLOADED:
                raise overloaded(asked.extension)

    async def _give_up(self, asked: AskedOf, waiting: Waiting, timeout_s: float) -> str:
        """Return the answer if it came after all; raise why there is none."""
        begun = await self._withdraw(asked)
        if waiting.is_answered:
            return await waiting.answer()
        if begun is False:
            raise overloaded(asked.extension, queued=True)
        raise too_slow(asked.extension, timeout_s)

    async def _lost(self, asked: AskedOf, tool: OfferedTool) -> ToolError:
        begun = await self._withdraw(asked)
        if begun is False:
            return unavailable(asked.extension)
        if tool.is_repeatable:
            return unavailable(asked.extension, sent=True)
        return outcome_unknown(asked.extension)

    async def _withdraw(self, asked: AskedOf) -> bool | None:
        """Tell the extension to stop; return whether it had begun, None when nobody knows."""
        try:
            async with asyncio.timeout(WITHDRAW_S):
                return await self._bridge.withdraw(asked.extension, asked.session, asked.call)
        except (TimeoutError, ToolrailError) as error:
            log.warning("extension.not_withdrawn", extra={"reason": type(error).__name__})
            return None


class _NotTaken(Exception):
    """There is no such session any more, and it did not get the call."""


def create_executor(parts: ExecutorParts) -> ExtensionExecutor:
    """Return the executor of this worker; nothing runs before `start`."""
    return ExtensionExecutor(
        parts.redis, parts.settings, worker=parts.worker, registry=parts.registry
    )


def _extension_of(tool: str) -> str:
    """Return the extension's name as a canonical name shows it, for a person to read."""
    return tool.removeprefix("ext.").partition(".")[0]


def _timeout_s(tool: OfferedTool, call: ClaimedCall) -> float:
    """Return how long to wait: the least of what policy, the tool and the bridge allow."""
    own_ms = tool.spec.budget.timeout_ms
    own_s = CALL_MAX_S if own_ms is None else own_ms / 1000
    head_start_s = min(HEAD_START_S, call.timeout_s / 10)
    return min(call.timeout_s - head_start_s, own_s, CALL_MAX_S)
