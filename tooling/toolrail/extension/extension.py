"""Offer tools to agents from a process of your own.

Is: the object an extension author declares tools on and serves them with. Is not: a worker; calls
come and answers go through Redis, under the backend's policy, approval and limits.
Above: extensions. Below: `offer.py`, `session.py`.

    dice = Extension("dice", version="1.0", settings=Settings.from_env())

    @dice.tool(title="Roll dice", read_only=True)
    def roll(sides: int = 6) -> str:
        '''Roll one die.'''

    if __name__ == "__main__":
        dice.run()
"""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Unpack, overload

from pydantic import ValidationError
from redis.asyncio import Redis

from toolrail.errors import ConfigError, RedisUnavailable
from toolrail.extension.bridge import Bridge
from toolrail.extension.offer import ExtensionToolOptions, Offer, complaint, make_offer
from toolrail.extension.session import Session, SessionEnd, SessionPlan
from toolrail.logs import set_up_logging
from toolrail.redaction import know
from toolrail.redis_io import check_version, connect
from toolrail.settings import Settings
from toolrail.tools import Tool
from toolrail_schemas import ExtensionHello, RegisterTools

log = logging.getLogger(__name__)

HEARTBEAT_S = 15.0
DEAD_AFTER_S = 45.0
CONCURRENCY = 2
CONCURRENCY_MAX = 64
"""Source of the first three: semantics 9.1 and 9.7."""
RECONNECT_S = 1.0


class Extension:
    """A named set of tools, served by one process at a time."""

    def __init__(
        self,
        name: str,
        *,
        version: str,
        settings: Settings,
        concurrency: int = CONCURRENCY,
        heartbeat_s: float = HEARTBEAT_S,
        dead_after_s: float = DEAD_AFTER_S,
    ) -> None:
        """Describe the extension; nothing is connected before `serve`.

        Args:
            name: Letters, digits, `_` and `-`; its tools are `ext.<name>.<tool>`.
            version: Of this code; stands in the source of its tools.
            settings: Where Redis is, and how patient to be.
            concurrency: Calls at work at once, 1 to 64; 32 more may wait.
            heartbeat_s: How often the session is renewed.
            dead_after_s: Without renewal for this long, it has ended.

        Raises:
            ConfigError: The name, the version or a number is out of its bounds.
        """
        try:
            ExtensionHello(extension_id=name, version=version, nonce="x" * 16)
        except ValidationError as error:
            raise ConfigError(
                complaint(error), fix="Use letters, digits, _ and -.", key=f"extension {name!r}"
            ) from None
        self._check(name, 1 <= concurrency <= CONCURRENCY_MAX, "concurrency is not in 1 to 64.")
        self._check(
            name,
            0 < heartbeat_s * 2 < dead_after_s,
            "two heartbeats do not fit into the time after which a session counts as dead.",
        )
        self.name = name
        self.version = version
        self._settings = settings
        know(settings.secrets())
        self._concurrency = concurrency
        self._heartbeat_s = heartbeat_s
        self._dead_after_s = dead_after_s
        self._offers: dict[str, Offer] = {}
        self._stop = asyncio.Event()

    @staticmethod
    def _check(name: str, holds: bool, problem: str) -> None:
        if not holds:
            raise ConfigError(problem, fix="Correct the number.", key=f"extension {name!r}")

    @overload
    def tool(self, name: Callable[..., object], /) -> Tool: ...
    @overload
    def tool(
        self, name: str | None = None, /, **options: Unpack[ExtensionToolOptions]
    ) -> Callable[[Callable[..., object]], Tool]: ...
    def tool(
        self,
        name: Callable[..., object] | str | None = None,
        /,
        **options: Unpack[ExtensionToolOptions],
    ) -> Tool | Callable[[Callable[..., object]], Tool]:
        """Offer the decorated function; its schema is read as `toolrail.tools` reads it.

        A blocking function runs in a thread, which cannot be killed: it should look at
        `ToolContext.stopped` when it takes long.

        Args:
            name: The tool's own name; the function's when left out.
            options: See `ExtensionToolOptions`.

        Raises:
            ConfigError: It cannot be a tool of an extension, or the name is used already.
        """
        if callable(name):
            return self._add(name, None, {})

        def decorate(function: Callable[..., object]) -> Tool:
            return self._add(function, name, options)

        return decorate

    def _add(
        self, function: Callable[..., object], name: str | None, options: ExtensionToolOptions
    ) -> Tool:
        own_name = name or function.__name__
        offer = make_offer(function, own_name, options, extension=self.name, version=self.version)
        if own_name in self._offers:
            raise ConfigError(
                "two tools have this name.", fix="Rename one.", key=offer.tool.spec.name
            )
        self._offers[own_name] = offer
        return offer.tool

    def stop(self) -> None:
        """Say goodbye and let `serve` return, after the running calls. Call it on the loop."""
        self._stop.set()

    async def serve(
        self, *, patience_s: float = 0.0, on_ready: Callable[[], None] | None = None
    ) -> None:
        """Serve calls until `stop`; reconnects as often as it takes.

        Args:
            patience_s: How long to wait for a predecessor that seems dead. A service that its
                supervisor restarts after a crash gives more than 45 s.
            on_ready: Called once, when the tools are registered.

        Raises:
            ConfigError: The tools cannot be registered together; none is.
            ExtensionNameTaken: An extension of this name is connected already.
            ExtensionClosed: The backend closed the session for a broken rule.
            RedisUnavailable, RedisTooOld: Redis cannot be used.
        """
        plan = self._plan()
        async with AsyncExitStack() as closing:
            redis = self._connect(closing, blocking=False)
            blocking = self._connect(closing, blocking=True)
            await check_version(redis, deadline_s=self._settings.redis_timeout_s)
            bridge = Bridge(
                redis,
                prefix=self._settings.key_prefix,
                deadline_s=self._settings.redis_timeout_s,
            )
            await self._serve(plan, bridge, blocking, patience_s=patience_s, on_ready=on_ready)

    async def _serve(
        self,
        plan: SessionPlan,
        bridge: Bridge,
        blocking: Redis,
        *,
        patience_s: float,
        on_ready: Callable[[], None] | None,
    ) -> None:
        was_open = False
        while not self._stop.is_set():
            session = Session(plan, bridge, blocking)
            try:
                await session.open(patience_s=patience_s)
                if not was_open and on_ready is not None:
                    on_ready()
                was_open = True
                if await session.run(self._stop) is SessionEnd.STOPPED:
                    return
            except RedisUnavailable as error:
                if not was_open:
                    raise
                log.warning("extension.no_session", extra={"reason": error.message})
                await asyncio.sleep(RECONNECT_S)
            finally:
                await session.close()

    def run(self, *, patience_s: float = 0.0, on_ready: Callable[[], None] | None = None) -> None:
        """Serve calls until SIGTERM or SIGINT; the main program of an extension.

        Logs to standard error unless logging was set up before. Arguments and errors are those of
        `serve`.
        """
        if not logging.getLogger().handlers:
            set_up_logging(self._settings.log_level, self._settings.log_format)
        asyncio.run(self._main(patience_s, on_ready))

    async def _main(self, patience_s: float, on_ready: Callable[[], None] | None) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        await self.serve(patience_s=patience_s, on_ready=on_ready)

    def _plan(self) -> SessionPlan:
        if not self._offers:
            raise ConfigError(
                "has no tools.",
                fix="Decorate a function with its `tool`.",
                key=f"extension {self.name!r}",
            )
        try:
            message = RegisterTools(tools=tuple(offer.message for offer in self._offers.values()))
        except ValidationError as error:
            raise ConfigError(
                complaint(error),
                fix="Offer fewer tools, or split the extension.",
                key=f"extension {self.name!r}",
            ) from None
        return SessionPlan(
            extension=self.name,
            version=self.version,
            tools={name: offer.tool for name, offer in self._offers.items()},
            message=message,
            concurrency=self._concurrency,
            heartbeat_s=self._heartbeat_s,
            dead_after_s=self._dead_after_s,
            drain_s=self._settings.drain_s,
        )

    def _connect(self, closing: AsyncExitStack, *, blocking: bool) -> Redis:
        redis = connect(
            self._settings.redis_url,
            timeout_s=self._settings.redis_timeout_s,
            name=f"toolrail-ext-{self.name}",
            blocking=blocking,
        )
        closing.push_async_callback(redis.aclose)
        return redis
