"""Call workspace tools on a real directory, as a worker's thread does.

Is: the shortest way from arguments to an output for the tests of this folder. Is not: an
executor; `test_builtin_executor.py` tests that.
Above: `test_workspace_*.py`. Below: the tools.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from toolrail.errors import SystemFailure, ToolError, ToolrailError
from toolrail.tools import Tool, ToolContext, ToolOutput
from toolrail_schemas import JsonObject, TextBlock
from toolrail_workers.builtin.checkpoints import CheckpointLimits
from toolrail_workers.builtin.locks import ThreadLocks
from toolrail_workers.builtin.paths import parse_path
from toolrail_workers.builtin.roots import Roots
from toolrail_workers.builtin.run_workspace import open_workspace
from toolrail_workers.builtin.workspace import TOOLS

_HERE = -100
_RENAME_EXCHANGE = 2
"""From linux/fcntl.h and linux/fs.h: two names change places in one step."""
RUN_ID = "run_01JDXZ0000000000000000000A"
_BY_VERB: Mapping[str, Tool] = {tool.spec.name.split(".")[1]: tool for tool in TOOLS}


@dataclass
class Workspace:
    """One run's workspace in a test."""

    top: Path
    threads: ThreadLocks = field(default_factory=ThreadLocks)
    roots: Roots = field(default_factory=Roots)
    keep: Callable[[bytes, str], str] | None = None
    calls: int = 0
    limits: CheckpointLimits = field(default_factory=CheckpointLimits)

    def context(self, call_key: str | None = None) -> ToolContext:
        """Return the context of a new call, or of another attempt of an old one."""
        if call_key is None:
            self.calls += 1
            call_key = f"{self.calls:016x}"
        return ToolContext(
            run_id=RUN_ID, call_key=call_key, max_output_tokens=20_000, keep=self.keep
        )

    def run(
        self, verb: str, arguments: JsonObject, context: ToolContext | None = None
    ) -> ToolOutput:
        """Run a tool and return its output; its errors come through."""
        context = context or self.context()
        with open_workspace(
            self.top,
            roots=self.roots,
            threads=self.threads,
            check_alive=context.check_alive,
            limits=self.limits,
        ) as workspace:
            return _BY_VERB[verb].run(
                arguments, replace(context, workspace=workspace, session=workspace.versions)
            )

    def list(self, **arguments: JsonValue) -> ToolOutput:
        return self.run("list_files", arguments)

    def read(self, path: str, **arguments: JsonValue) -> ToolOutput:
        return self.run("read_file", {"path": path, **arguments})

    def write(
        self, path: str, content: str, *, call_key: str | None = None, **arguments: JsonValue
    ) -> ToolOutput:
        return self.run(
            "write_file",
            {"path": path, "content": content, **arguments},
            self.context(call_key),
        )

    def patch(
        self, patch: str, *, call_key: str | None = None, **arguments: JsonValue
    ) -> ToolOutput:
        return self.run("apply_patch", {"patch": patch, **arguments}, self.context(call_key))

    def put(self, content: bytes | str, path: str = "output/a.txt") -> Path:
        """Put a file there without any tool."""
        place = self.top / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return place

    def tree(self) -> dict[str, bytes | None]:
        """Return all that is there besides the run's own records; None for what is no file."""
        return {
            str(place.relative_to(self.top)): place.read_bytes()
            if place.is_file() and not place.is_symlink()
            else None
            for place in sorted(self.top.rglob("*"))
            if ".toolrail" not in place.parts
        }

    def finish(self, **arguments: JsonValue) -> ToolOutput:
        return self.run("finish", arguments)


def facts_of(output: ToolOutput) -> JsonObject:
    """Return the structured part, which every workspace tool fills."""
    assert isinstance(output.structured, dict)
    return output.structured


def text_of(output: ToolOutput) -> str:
    """Return what the model reads first."""
    block = output.content[0]
    assert isinstance(block, TextBlock)
    return block.text


def paths_of(output: ToolOutput) -> list[str]:
    """Return the paths of a listing, in its order."""
    entries = cast("list[JsonObject]", facts_of(output)["entries"])
    return [str(entry["path"]) for entry in entries]


def refusal(action: Callable[[], object]) -> ToolrailError:
    """Return the error that `action` ends with.

    Raises:
        AssertionError: It ended well.
    """
    try:
        action()
    except (ToolError, SystemFailure) as error:
        return error
    raise AssertionError("nothing was refused")


def code_of(action: Callable[[], object]) -> str:
    """Return the code of the error that `action` ends with."""
    return refusal(action).code


def main(top: str, action: str, path: str, content: str = "") -> None:
    """Be another worker: write, or hold the lock of a path; tell on standard output.

    Or be an enemy: swap a directory for a link to `content`, again and again, until killed.
    """
    if action == "swap":
        link = Path(f"{path}-link")
        link.symlink_to(content)
        libc = ctypes.CDLL(None, use_errno=True)
        while libc.renameat2(_HERE, bytes(link), _HERE, path.encode(), _RENAME_EXCHANGE) == 0:
            pass
        raise OSError(ctypes.get_errno(), "renameat2")
    workspace = Workspace(Path(top), calls=os.getpid())
    told: list[str] = []

    def note() -> bool:
        if not told:
            told.append("waiting")
            print("waiting", flush=True)  # noqa: T201  # what the test listens to
        return False

    context = replace(workspace.context(), stopped=note)
    with open_workspace(
        workspace.top, roots=workspace.roots, threads=ThreadLocks(), check_alive=lambda: None
    ) as opened:
        if action == "hold":
            with opened.held(parse_path(path)):
                print("held", flush=True)  # noqa: T201  # what the test listens to
                sys.stdin.read()
            return
    try:
        workspace.run("write_file", {"path": path, "content": content}, context)
    except ToolError as error:
        print(error.code, flush=True)  # noqa: T201  # what the test listens to
    else:
        print("ok", flush=True)  # noqa: T201  # what the test listens to


if __name__ == "__main__":
    main(*sys.argv[1:])
