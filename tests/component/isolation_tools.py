"""Functions that a child process runs in `test_isolation_process.py`.

Is: good and bad tools, as plain functions. Is not: collected by pytest. Above: the test beside it,
which puts this folder on the import path of the children. Below: nothing of Toolrail.
"""

import ctypes
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Awaitable
from pathlib import Path

from pydantic import JsonValue

from toolrail.errors import SystemFailure, ToolError

LOADED: list[int] = []


def echo(**arguments: JsonValue) -> dict[str, JsonValue]:
    return arguments


async def echo_later(value: JsonValue) -> JsonValue:
    return value


def who() -> int:
    return os.getpid()


def raise_value_error(text: str) -> None:
    raise ValueError(text)


def raise_tool_error() -> None:
    raise ToolError("demo.refused", "not today", next_action="Ask tomorrow.", structured={"day": 2})


def raise_system_failure() -> None:
    raise SystemFailure("demo.broken", "the disk is gone")


def leave(code: int) -> None:
    os._exit(code)


def say_exit() -> None:
    sys.exit(3)


def segfault() -> None:
    ctypes.string_at(0)


def spin(pid_file: str) -> None:
    Path(pid_file).write_text(str(os.getpid()))
    while True:
        pass


def start_sleeper(pid_file: str) -> int:
    """Start a process that outlives the call."""
    sleeper = subprocess.Popen(["sleep", "1000"])
    Path(pid_file).write_text(str(sleeper.pid))
    return sleeper.pid


def start_daemon(pid_file: str) -> None:
    """Start a process that leaves the group and loses its parent, then wait for ever."""
    script = f"sleep 1000 & echo $! > {pid_file}"
    subprocess.run(["setsid", "sh", "-c", script], check=True)
    hang_in_c()


def hang_with_sleeper(pid_file: str) -> None:
    start_sleeper(pid_file)
    hang_in_c()


def hang_in_c() -> None:
    """Wait without giving the interpreter lock away, as a bad extension module does."""
    ctypes.PyDLL(None).sleep(1000)


def much(size: int) -> str:
    return "x" * size


def eat_memory() -> int:
    return len(bytearray(1 << 40))


def not_json() -> object:
    return threading.Lock()


def shout(lines: int) -> str:
    for number in range(lines):
        print(f"line {number}")  # noqa: T201  # printing is what is tested
    os.write(2, b"raw bytes on fd 2\n")
    return "done"


def flood(size: int) -> str:
    block = b"y" * 65_536
    for _ in range(size // len(block)):
        os.write(1, block)
    return "done"


def close_everything() -> str:
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    return "still here"


def move(folder: str) -> str:
    os.chdir(folder)
    return os.getcwd()


def where() -> str:
    return os.getcwd()


def core_limit() -> list[int]:
    return list(resource.getrlimit(resource.RLIMIT_CORE))


def stdin_is_empty() -> bool:
    return sys.stdin.read() == ""


def variables() -> list[str]:
    return sorted(os.environ)  # noqa: TID251  # what a tool sees is what is tested


def descriptors() -> list[str]:
    """Names of what a program started by a tool finds open, besides the standard three."""
    found = subprocess.run(
        ["sh", "-c", "ls -l /proc/self/fd"], capture_output=True, text=True, check=True
    )
    return [line for line in found.stdout.splitlines() if "socket:" in line]


class Whole:
    """Takes the whole call, as `toolrail.tools.Tool` does."""

    def call_isolated(
        self, arguments: dict[str, JsonValue], context: dict[str, JsonValue]
    ) -> Awaitable[JsonValue]:
        return echo_later([arguments, context])


WHOLE = Whole()
NOT_CALLABLE = 5
