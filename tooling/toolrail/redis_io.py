"""Talk to Redis: one typed seam, shared round trips, retries with a bound.

Is: the only module that knows redis-py's reply types and errors, but for the words of the latter
(`redis_away`). Is not: any key or script (`keys`, `ledger`).
Above: ledger, registry, blobs, inbox. Below: redis-py.

RESP2 is asked for on purpose: its replies have one shape in every redis-py from 6.4 to 8.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

import hiredis
from redis import exceptions as rx
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from toolrail.errors import AdmissionClosed, Closed, RedisError, RedisUnavailable
from toolrail.redis_away import words_of
from toolrail.redis_meter import OTHER_OPERATION, RedisMeter
from toolrail.redis_version import ServerVersion, read_version

Argument = str | bytes | int | float
T = TypeVar("T")

RETRIED = (rx.ConnectionError, rx.TimeoutError, rx.BusyLoadingError, rx.ReadOnlyError, OSError)
BACKOFF_FIRST_S = 0.02
BACKOFF_CAP_S = 1.0


def connect(
    url: str,
    *,
    timeout_s: float,
    name: str,
    blocking: bool = False,
    meter: RedisMeter | None = None,
) -> Redis:
    """Return a client that decodes UTF-8 and leaves retrying to `retrying`.

    Args:
        url: `redis://`, `rediss://` or `unix://`.
        timeout_s: For connecting, and for each reply or shared round trip.
        name: Shown by CLIENT LIST.
        blocking: For a client that waits in XREAD: replies may then take as long as they like.
        meter: Counts the single commands and shared round trips of this client; redis-py's own
            pipelines are not counted.
    """
    pool = ConnectionPool.from_url(
        url,
        decode_responses=True,
        protocol=2,
        socket_timeout=None if blocking else timeout_s,
        socket_connect_timeout=timeout_s,
        health_check_interval=0 if blocking else 15,
        client_name=name,
        retry=Retry(NoBackoff(), 0),
    )
    redis = cast("SharedRedis", SharedRedis.from_pool(pool))
    redis.meter = meter
    return redis


class SharedRedis(Redis):
    """redis-py's client, whose users share the round trips of a tick, and which stays closed."""

    is_closed = False
    meter: RedisMeter | None = None

    @cached_property
    def round_trips(self) -> "RoundTrips":
        """What all users of this client send through."""
        return RoundTrips(self)

    async def execute_command(self, *args: Argument, **options: object) -> object:
        """Return the reply of one command.

        Raises:
            Closed: The client was closed; redis-py would connect again, for nobody to disconnect.
        """
        self.check_open()
        work = cast("Awaitable[object]", super().execute_command(*args, **options))  # type: ignore[no-untyped-call]
        meter = self.meter
        if meter is None:
            return await work
        began = time.perf_counter()
        try:
            reply = await work
        except Exception as error:
            meter.failed(error)
            raise
        meter.took(OTHER_OPERATION, 1, time.perf_counter() - began)
        meter.heard()
        return reply

    def check_open(self) -> None:
        """The client may be used, or this raises `Closed`."""
        if self.is_closed:
            raise Closed

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Wait for what is under way, then disconnect for good."""
        await self.round_trips.settle()
        self.is_closed = True
        await super().aclose(close_connection_pool)


def round_trips_of(redis: Redis) -> "RoundTrips":
    """Return the round trips that all users of this client share."""
    return redis.round_trips if isinstance(redis, SharedRedis) else RoundTrips(redis)


async def command(redis: Redis, *args: Argument) -> object:
    """Return the raw reply of one command."""
    return await _cancellable(redis.execute_command(*args))  # type: ignore[no-untyped-call]


async def command_bytes(redis: Redis, *args: Argument) -> bytes | None:
    """Return the undecoded reply of one command that answers with a string."""
    reply = await _cancellable(redis.execute_command(*args, NEVER_DECODE=[]))  # type: ignore[no-untyped-call]
    return cast("bytes | None", reply)


async def _cancellable(work: Awaitable[object]) -> object:
    """Return what the work returns; raise a cancellation that was swallowed on the way.

    redis-py sends inside `asyncio.wait_for`, which before Python 3.12 drops a cancellation that
    comes together with the result. A loop could then not be ended, nor a deadline be kept.
    """
    task = asyncio.current_task()
    asked = 0 if task is None else task.cancelling()
    reply = await work
    if task is not None and task.cancelling() > asked:
        raise asyncio.CancelledError
    return reply


async def xread(
    redis: Redis, streams: Mapping[str, str], *, count: int, block_ms: int | None
) -> list[tuple[str, str, dict[str, str]]]:
    """Return (stream, entry id, fields) of new entries, in stream order.

    Args:
        redis: A blocking client when `block_ms` is given.
        streams: Stream to the last id seen.
        count: Most entries per stream.
        block_ms: How long to wait; None does not wait.
    """
    args: list[Argument] = ["XREAD", "COUNT", count]
    if block_ms is not None:
        args += ["BLOCK", block_ms]
    args += ["STREAMS", *streams.keys(), *streams.values()]
    reply = cast(
        "list[tuple[str, list[tuple[str, dict[str, str]]]]] | None", await command(redis, *args)
    )
    return [(name, entry, fields) for name, entries in reply or [] for entry, fields in entries]


async def check_version(redis: Redis, *, deadline_s: float) -> ServerVersion:
    """Return which server answers, or raise.

    Raises:
        RedisTooOld: Older than 7.0.
        RedisUnavailable: No answer before the deadline.
    """
    return read_version(await retrying(lambda: redis.info("server"), deadline_s=deadline_s))


async def retrying(action: Callable[[], Awaitable[T]], *, deadline_s: float) -> T:
    """Return what `action` returns, trying again while Redis is away.

    Only for actions that are idempotent: a reply may be lost after its command took effect.

    Args:
        action: Started anew for each try.
        deadline_s: Counted from now; at least one try is made.

    Raises:
        RedisUnavailable: Still away at the deadline.
        AdmissionClosed: Redis refuses writes for lack of memory.
        RedisError: Redis refuses for good; the message tells why.
    """
    loop = asyncio.get_running_loop()
    end, wait_s = loop.time() + deadline_s, BACKOFF_FIRST_S
    while True:
        try:
            return await action()
        except RETRIED as error:
            if loop.time() + wait_s >= end:
                raise RedisUnavailable(words_of(error)) from error
        except rx.OutOfMemoryError as error:
            raise AdmissionClosed from error
        except rx.ResponseError as error:
            if not str(error).startswith(("MISCONF", "TRYAGAIN", "MASTERDOWN", "BUSY ")):
                raise RedisError(
                    f"Redis refused the command: {error}. Run `toolrail doctor`; check the "
                    "version, and the rights of the user in TOOLRAIL_REDIS_URL."
                ) from error
            if loop.time() + wait_s >= end:
                raise RedisUnavailable(words_of(error)) from error
        await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # noqa: S311  # jitter
        wait_s = min(wait_s * 2, BACKOFF_CAP_S)


Away = Callable[[RedisUnavailable | None], None]
"""Told that Redis is away, with the error, and None when it answers again."""


async def outlasting(
    action: Callable[[], Awaitable[T]], *, deadline_s: float, away: Away | None
) -> T:
    """Return what `action` returns, however long Redis is away; for what has no end of its own.

    Args:
        action: As for `retrying`.
        deadline_s: After so long `away` is told; then again and again.
        away: None raises instead, as `retrying` does.

    Raises:
        RedisUnavailable: Still away at the deadline, and nobody wants to be told.
        AdmissionClosed, RedisError: As `retrying`.
    """
    was_away = False
    while True:
        try:
            result = await retrying(action, deadline_s=deadline_s)
        except RedisUnavailable as error:
            if away is None:
                raise
            was_away = True
            away(error)
            continue
        if was_away and away is not None:
            away(None)
        return result


# hiredis types its argument as a tuple of one; it takes a tuple of any length.
_PACK = cast(
    "Callable[[tuple[Argument, ...]], bytes]",
    hiredis.pack_command,  # pyright: ignore[reportUnknownMemberType]
)


@dataclass(slots=True)
class _Waiting:
    args: tuple[Argument, ...]
    future: "asyncio.Future[object]"


class RoundTrips:
    """Commands of one loop tick share a round trip.

    Under load the tick's commands are many, so a batch forms by itself; a lone command is not
    delayed. At most `in_flight` batches are on the way, and the rest gathers meanwhile.
    """

    def __init__(self, redis: Redis, *, in_flight: int = 4, batch: int = 256) -> None:
        self._redis = redis
        self._meter = redis.meter if isinstance(redis, SharedRedis) else None
        self._operations: dict[Argument, str] = {}
        self._slots = in_flight
        self._batch = batch
        self._waiting: list[_Waiting] = []
        self._scheduled = False
        self._tasks: set[asyncio.Task[None]] = set()

    def name_operations(self, names: Mapping[str, str]) -> None:
        """Count commands with this first argument, such as a script's hash, under its name."""
        self._operations.update(names)

    async def send(self, *args: Argument) -> object:
        """Return the reply of one command, or raise what Redis or the connection raised."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(args, loop.create_future())
        self._waiting.append(waiting)
        if not self._scheduled and self._slots > 0:
            self._scheduled = True
            loop.call_soon(self._launch)
        return await waiting.future

    async def settle(self) -> None:
        """Whatever is under way has its replies."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _launch(self) -> None:
        self._scheduled = False
        while self._waiting and self._slots > 0:
            batch, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
            self._slots -= 1
            task = asyncio.get_running_loop().create_task(self._flush(batch))
            self._tasks.add(task)
            task.add_done_callback(self._landed)

    def _landed(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._slots += 1
        if self._waiting:
            self._launch()

    async def _flush(self, batch: list[_Waiting]) -> None:
        began = time.perf_counter()
        try:
            replies = await self._exchange([waiting.args for waiting in batch])
        except BaseException as error:
            if self._meter is not None:
                self._meter.failed(error, len(batch))
            # Whatever ended the round trip, its callers must not wait for ever.
            for waiting in batch:
                if not waiting.future.done():
                    waiting.future.set_exception(
                        error if isinstance(error, Exception) else rx.ConnectionError(repr(error))
                    )
            if not isinstance(error, Exception):
                raise
            return
        if self._meter is not None:
            self._count(self._meter, batch, replies, time.perf_counter() - began)
        for waiting, reply in zip(batch, replies, strict=True):
            if waiting.future.done():
                continue
            if isinstance(reply, Exception):
                waiting.future.set_exception(reply)
            else:
                waiting.future.set_result(reply)

    def _count(
        self, meter: RedisMeter, batch: list[_Waiting], replies: list[object], took_s: float
    ) -> None:
        """Count a round trip, once for each operation in it: one name is cheap, one bucket less."""
        meter.heard()
        names = Counter([waiting.args[1] if len(waiting.args) > 1 else "" for waiting in batch])
        for name, times in names.items():
            meter.took(self._operations.get(name, OTHER_OPERATION), times, took_s)
        for reply in replies:
            if isinstance(reply, Exception):
                meter.failed(reply)

    async def _exchange(self, commands: Sequence[tuple[Argument, ...]]) -> list[object]:
        """Return one reply, or the error in its place, for each command.

        What redis-py's pipeline does, but packed in C: its packing in Python took half of the
        client's time per call.
        """
        if isinstance(self._redis, SharedRedis):
            self._redis.check_open()
        pool = self._redis.connection_pool
        connection = cast("AbstractConnection", await pool.get_connection())  # type: ignore[no-untyped-call]
        # One timeout for all: redis-py's own, for each reply, takes longer than reading it.
        limit_s, connection.socket_timeout = connection.socket_timeout, None
        try:
            async with asyncio.timeout(limit_s):
                await connection.send_packed_command(b"".join(map(_PACK, commands)))
                return [await _reply_of(connection) for _ in commands]
        except BaseException:
            # Replies may still be on the way; nobody else may read them.
            await connection.disconnect(nowait=True)
            raise
        finally:
            connection.socket_timeout = limit_s
            await pool.release(connection)


async def _reply_of(connection: AbstractConnection) -> object:
    try:
        return cast("object", await connection.read_response())
    except rx.ResponseError as error:
        return error
