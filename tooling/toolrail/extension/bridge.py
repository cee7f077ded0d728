"""Every step that the two sides of the extension bridge take in Redis.

Is: the scripts of `lua/` with typed arguments and answers; all may be repeated after a lost reply.
Is not: a decision when to take which step. Above: `session.py`, and the extension worker. Below:
`lua/`, `toolrail.redis_io`.

The messages that travel are those of `toolrail_schemas.extension`, semantics 9.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import cast

from redis.asyncio import Redis

from toolrail.errors import RedisUnavailable
from toolrail.keys import Keys
from toolrail.redis_io import Argument, command, retrying
from toolrail_schemas import (
    CallReply,
    CancelCall,
    ExecuteCall,
    ExtensionHello,
    RegisterTools,
    canonical_json,
    sha256_hex,
)

NAMES = ("open", "beat", "close", "ask", "begin", "reply", "withdraw", "view")
QUEUE_MAX = 32
"""Calls that may wait for a free slot of one extension. Source: semantics 9.7."""

_Script = Callable[..., Awaitable[object]]


class Asked(StrEnum):
    """What came of asking a session to execute a call."""

    ASKED = "asked"
    UNAVAILABLE = "unavailable"
    OVERLOADED = "overloaded"


@dataclass(frozen=True, slots=True)
class CallId:
    """One attempt of one call, as it is named on the bridge."""

    call_key: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.call_key}.{self.attempt}"

    @classmethod
    def of(cls, message: ExecuteCall | CancelCall | CallReply) -> "CallId":
        """Return the call that a message is about."""
        return cls(message.call_key, message.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """What a session says of itself besides its hello."""

    holder: str
    """Host and process, for the person who reads why a name is taken."""
    concurrency: int
    dead_after_s: float


@dataclass(frozen=True, slots=True)
class Taken:
    """Another session holds the extension's name."""

    holder: str
    ends_in_s: float
    """Unless it is renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What an extension registered last, unchecked."""

    version: str
    protocol: str
    tools: str
    """JSON of a `RegisterTools` message, from a third party."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """One listed extension at one moment."""

    extension: str
    digest: str
    """Of its registration."""
    session: str
    """Empty: not connected."""
    leaving: bool
    """Answers the calls it has and takes no more."""


@dataclass(frozen=True, slots=True)
class View:
    """All listed extensions at one moment."""

    now_ms: int
    presences: tuple[Presence, ...]


def registration_digest(version: str, protocol: int, tools: str) -> str:
    """Return the digest by which a registration is recognised."""
    return sha256_hex(canonical_json([version, protocol, tools]))


def script_text(name: str) -> str:
    """Return one script with the shared prelude under its own first line."""
    folder = resources.files("toolrail.extension").joinpath("lua")
    prelude = folder.joinpath("_prelude.lua").read_text(encoding="utf-8")
    first, rest = folder.joinpath(f"{name}.lua").read_text(encoding="utf-8").split("\n", 1)
    return f"{first}\n{prelude}\n{rest}"


class Bridge:
    """The steps, on one Redis."""

    def __init__(self, redis: Redis, *, prefix: str, deadline_s: float) -> None:
        """Prepare; nothing is sent.

        Args:
            redis: For short commands.
            prefix: Of all keys.
            deadline_s: How long a step is retried while Redis is away.
        """
        self.keys = Keys(prefix)
        self._redis = redis
        self._prefix = prefix
        self._deadline_s = deadline_s
        self._scripts = {
            name: cast("_Script", redis.register_script(script_text(name))) for name in NAMES
        }

    async def _step(self, name: str, extension: str, *args: Argument) -> object:
        line: tuple[Argument, ...] = (self._prefix, extension, *args)
        return await retrying(
            lambda: self._scripts[name](keys=(), args=line), deadline_s=self._deadline_s
        )

    # What the extension does

    async def open(
        self, hello: ExtensionHello, tools: RegisterTools, terms: SessionTerms
    ) -> Taken | None:
        """The session is open and its tools are the extension's only ones; or the name is taken.

        Raises:
            RedisUnavailable: Redis did not answer in time.
        """
        text = tools.model_dump_json()
        digest = registration_digest(hello.version, hello.protocol_version, text)
        reply = await self._step(
            "open",
            hello.extension_id,
            hello.nonce,
            terms.holder,
            terms.concurrency,
            round(terms.dead_after_s * 1000),
            hello.version,
            hello.protocol_version,
            text,
            digest,
        )
        match cast("list[object]", reply):
            case ["taken", str(holder), int(ends_in_ms)]:
                return Taken(holder, max(ends_in_ms, 0) / 1000)
            case _:
                return None

    async def beat(self, hello: ExtensionHello) -> bool:
        """The session lives on; False when it has ended already."""
        return await self._step("beat", hello.extension_id, hello.nonce) == 1

    async def leave(self, hello: ExtensionHello) -> None:
        """The session takes no new calls; it may still answer those it has."""
        await self._step("close", hello.extension_id, hello.nonce, "leaving", "")

    async def close(self, extension: str, session: str, *, reason: str = "") -> None:
        """The session has ended.

        Args:
            extension: Its name.
            session: Nonce of its hello.
            reason: For its author, when it is the backend that ends it.
        """
        await self._step("close", extension, session, "closed", reason)

    async def begin(self, hello: ExtensionHello, call: CallId, entry: str) -> float:
        """Return the seconds a call's function has from now; 0 when it must not start any more."""
        left = await self._step("begin", hello.extension_id, hello.nonce, str(call), entry)
        return cast("int", left) / 1000

    async def reply(self, hello: ExtensionHello, call: CallId, worker: str, message: str) -> bool:
        """The answer is on its way to the worker; False when the session has ended."""
        sent = await self._step(
            "reply", hello.extension_id, hello.nonce, str(call), worker, message
        )
        return sent == 1

    # What the worker does

    async def view(self) -> View:
        """Return all listed extensions as they are now."""
        now_ms, *rest = cast("list[object]", await self._step("view", ""))
        presences = tuple(
            Presence(
                extension=str(rest[i]),
                digest=str(rest[i + 1]),
                session=str(rest[i + 2]),
                leaving=bool(rest[i + 3]),
            )
            for i in range(0, len(rest), 4)
        )
        return View(cast("int", now_ms), presences)

    async def registration(self, extension: str) -> Registration | None:
        """Return what an extension registered last; None when it is forgotten."""
        key = self.keys.extension(extension)
        reply = await retrying(
            lambda: command(self._redis, "HMGET", key, "version", "protocol", "tools"),
            deadline_s=self._deadline_s,
        )
        match cast("list[object]", reply):
            case [str(version), str(protocol), str(tools)]:
                return Registration(version=version, protocol=protocol, tools=tools)
            case _:
                return None

    async def ask(
        self, extension: str, session: str, message: ExecuteCall, *, worker: str
    ) -> Asked:
        """The session has the call to execute, or cannot take it.

        Raises:
            RedisUnavailable: No answer; the call may have been taken. `withdraw` it.
        """
        line: tuple[Argument, ...] = (
            self._prefix,
            extension,
            session,
            str(CallId.of(message)),
            message.deadline,
            worker,
            message.model_dump_json(),
            QUEUE_MAX,
        )
        tries = 0

        async def once() -> object:
            nonlocal tries
            tries += 1
            return await self._scripts["ask"](keys=(), args=line)

        asked = Asked(cast("str", await retrying(once, deadline_s=self._deadline_s)))
        if asked is not Asked.ASKED and tries > 1:
            # The try whose reply was lost may have been taken, and answered since.
            raise RedisUnavailable("Redis lost the reply, and whether the call was taken.")
        return asked

    async def withdraw(self, extension: str, session: str, call: CallId) -> bool | None:
        """Nobody waits for the call's answer any more, and the session is told to stop it.

        Returns:
            Whether its function had started; if not, it never will. None when nothing is known:
            it was answered, or never asked for.
        """
        cancel = CancelCall(call_key=call.call_key, attempt=call.attempt).model_dump_json()
        begun = await self._step("withdraw", extension, session, str(call), cancel)
        return None if begun == -1 else begun == 1

    async def forget_replies(self, worker: str) -> None:
        """What was answered to the worker and is not read yet is dropped."""
        key = self.keys.extension_replies(worker)
        await retrying(lambda: command(self._redis, "DEL", key), deadline_s=self._deadline_s)
