"""Run tool functions, one at a time, in a process that may be killed at any moment.

Is: the only process in which process-isolated tool code runs. Loads a function once, calls it
with JSON, answers with JSON or with a structured error; says when a call left processes behind.
Is not: deadlines and kills (the worker and the guard do that), nor tool contexts and results
richer than JSON (an object with `call_isolated` builds those).
Above: `guard.py` forks it, `handle.py` talks to it. Below: the tool.

The tool's standard input is empty; what it prints goes to the worker's log. The descriptor of
the calls is not inherited by programs it starts.
"""

import asyncio
import contextlib
import ctypes
import faulthandler
import importlib
import inspect
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn, Protocol, cast, runtime_checkable

import orjson

from toolrail_workers.isolation.framing import ERROR_CHARS, HEADER, Kind, Reply, Request, frame

if TYPE_CHECKING:
    from pydantic import JsonValue

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform == "linux"
CHAIN_MAX = 5
"""Causes of an exception whose places are printed."""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Resource limits of a child, and of each process it starts. None: not limited here."""

    address_space_bytes: int | None = None
    """Virtual memory; the allocation that would exceed it fails with MemoryError."""
    open_files: int | None = None
    processes: int | None = None
    """Counts every process of this user id on the machine, so set it only with an id per worker."""


@runtime_checkable
class IsolatedCallable(Protocol):
    """An object that takes the whole call, instead of a function that takes its arguments."""

    def call_isolated(
        self, arguments: "dict[str, JsonValue]", context: "dict[str, JsonValue]"
    ) -> object:
        """Return the JSON result of the call, or an awaitable of it."""
        ...


class Functions:
    """The functions this child has loaded."""

    def __init__(self) -> None:
        self._loaded: dict[str, Callable[[Request], object]] = {}
        self._runner: asyncio.Runner | None = None

    def call(self, request: Request) -> object:
        """Return what the function returns; an awaitable is awaited."""
        result = self._loaded[request["target"]](request)
        if inspect.isawaitable(result):
            return self._await(result)
        return result

    def load(self, target: str) -> None:
        """Import the target unless that was done before.

        Raises:
            TypeError: There is no callable of that name.
        """
        if target in self._loaded:
            return
        module, _, path = target.partition(":")
        found: object = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        if isinstance(found, IsolatedCallable):
            method = found.call_isolated
            self._loaded[target] = lambda r: method(r["arguments"], r["context"])
        elif callable(found):
            function = found
            self._loaded[target] = lambda r: function(**r["arguments"])
        else:
            raise TypeError(f"{target} is not callable")

    def _await(self, awaitable: Awaitable[object]) -> object:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(_finish(awaitable))


async def _finish(awaitable: Awaitable[object]) -> object:
    return await awaitable


def main(*, calls: int, output: int, limits: ChildLimits) -> NoReturn:
    """Become a child: serve calls until the worker closes its end, then end."""
    try:
        _serve_alone(calls, output, limits)
        os._exit(0)
    except BaseException:  # noqa: BLE001  # must not unwind into the guard that it was forked from
        traceback.print_exc()
        os._exit(1)


def _serve_alone(calls: int, output: int, limits: ChildLimits) -> None:
    parent = os.getppid()
    os.setpgid(0, 0)
    become_subreaper()
    _die_with_parent(parent)
    os.set_inheritable(calls, False)
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    faulthandler.enable()
    _limit(limits)
    with socket.socket(fileno=calls) as connection:
        # The worker may have made it while a default timeout was set, which sticks to the socket.
        connection.setblocking(True)
        with connection.makefile("rb") as incoming:
            serve(connection, incoming)


def serve(connection: socket.socket, incoming: BinaryIO) -> None:
    """Say that calls may come, then answer them until there are no more."""
    functions = Functions()
    home = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    connection.sendall(frame(b"{}"))
    while header := incoming.read(HEADER.size):
        (size,) = HEADER.unpack(header)
        request = cast(Request, orjson.loads(incoming.read(size)))
        reply = answer(functions, request)
        # A tool that changed directory must not move the next one.
        os.fchdir(home)
        _flush()
        connection.sendall(frame(reply))


def answer(functions: Functions, request: Request) -> bytes:
    """Run one call and return its reply as JSON. Does not raise."""
    try:
        functions.load(request["target"])
    except BaseException as error:  # noqa: BLE001  # tool code runs at import, and may do anything
        return _refuse(Kind.NOT_LOADED, error)
    try:
        result = functions.call(request)
    except BaseException as error:  # noqa: BLE001  # even SystemExit of a tool is only its answer
        return _explain(error)
    try:
        value = orjson.dumps(result, default=_to_json)
    except (TypeError, ValueError, RecursionError) as error:
        return _refuse(Kind.NOT_JSON, error)
    if len(value) > request["max_output_bytes"]:
        return _reply({"kind": Kind.TOO_LARGE, "leftovers": False, "size": len(value)})
    leftovers = b"true" if has_children() else b"false"
    return b'{"kind":"value","leftovers":%b,"value":%b}' % (leftovers, value)


def _to_json(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return dump(mode="json")


def _explain(error: BaseException) -> bytes:
    """Keep the code of an error that has one; log the trace of any other."""
    code = getattr(error, "code", None)
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__}
    if not isinstance(code, str) or "toolrail.errors.ToolrailError" not in names:
        return _refuse(Kind.RAISED, error)
    kind = Kind.SYSTEM_FAILURE if "toolrail.errors.SystemFailure" in names else Kind.TOOL_ERROR
    reply: Reply = {
        "kind": kind,
        "leftovers": False,
        "code": code,
        "message": str(error)[:ERROR_CHARS],
        "next_action": getattr(error, "next_action", None),
        "structured": getattr(error, "structured", None),
    }
    return _reply(reply)


def _refuse(kind: Kind, error: BaseException) -> bytes:
    # The trace is for the worker's log, which never holds what an exception said. A tool may have
    # closed or replaced its standard error, which must not cost it the answer.
    with contextlib.suppress(Exception):
        _print_places(error)
    return _reply(
        {
            "kind": kind,
            "leftovers": False,
            "type": type(error).__name__,
            "message": _text(error)[:ERROR_CHARS],
        }
    )


def _print_places(error: BaseException | None) -> None:
    """Print where an exception was raised and of which type, the cause first."""
    chain: list[BaseException] = []
    while error is not None and len(chain) < CHAIN_MAX:
        chain.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    for raised in reversed(chain):
        traceback.print_tb(raised.__traceback__)
        sys.stderr.write(f"{type(raised).__name__}\n")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # an error that cannot say what it is is still an answer
        return ""


def _reply(reply: Reply) -> bytes:
    reply["leftovers"] = has_children()
    try:
        return orjson.dumps(reply, default=str)
    except (TypeError, ValueError, RecursionError):
        # Only repair data and odd text can fail here; the error itself must still arrive.
        message = reply.get("message", "").encode("utf-8", "replace").decode()
        return orjson.dumps({**reply, "structured": None, "next_action": None, "message": message})


def has_children() -> bool:
    """Return whether this process has children, running or dead."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def children_of_this_process() -> set[int]:
    """Return the process ids of all children. Empty where the system cannot tell."""
    pid = os.getpid()
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return set()
    return set(map(int, text.split()))


def become_subreaper() -> None:
    """Adopt descendants whose parent died, instead of losing them to init. Linux only."""
    if LINUX:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _die_with_parent(parent: int) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _limit(limits: ChildLimits) -> None:
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_AS: limits.address_space_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: limits.processes,
    }
    for kind, value in wanted.items():
        if value is not None:
            # Hard as well as soft: the tool cannot raise it again.
            hard = resource.getrlimit(kind)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
