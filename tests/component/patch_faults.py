"""Break a patch at each step that it takes on the disk, each time in a process of its own.

Is: a script: it makes one workspace per step, patches it with the fault at that step, and writes
down what the call was told. Is not: a judgement (`test_patch_faults.py`).
Above: `test_patch_faults.py`. Below: `workspaces.py`; the interpreter's audit events, which come
before each step that makes, links, renames or removes a name.
"""

import errno
import logging
import os
import signal
import sys
from pathlib import Path

from tests.component.workspaces import Workspace
from tests.patching import envelope
from toolrail.errors import ToolrailError

CALL = "f" * 16
STEPS_MAX = 400
TOLD = 3
"""The descriptor on which a child tells its end."""
_EVENTS = frozenset({"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir"})
_NEEDS_ROOM = frozenset({"os.link", "os.mkdir", "open"})

PATCH = envelope(
    "*** Update File: output/a.txt",
    "+added at the end",
    "*** Add File: output/new/deep/b.txt",
    "+b",
    "*** Delete File: scratch/c.txt",
    "*** Update File: plan/d.txt",
    "*** Move to: plan/moved/d.txt",
    "@@",
    "-old",
    "+new",
    "*** Update File: output/e\u0301.txt",
    "*** Move to: output/\u00e9.txt",
)
"""One section of each kind. The first, done twice, would show."""


def prepare(top: Path) -> Workspace:
    """Return a workspace as it is before the patch."""
    workspace = Workspace(top)
    workspace.list()
    workspace.put("a\n").chmod(0o750)
    workspace.put("c", "scratch/c.txt")
    workspace.put("old\n", "plan/d.txt")
    workspace.put("e\n", "output/e\u0301.txt")
    return workspace


class Fault:
    """Breaks the step of a number, from 1.

    `kill` ends the process before it; `once` fails it; `full` fails all that need room from it
    on; `dead` fails everything from it on.
    """

    def __init__(self, kind: str, step: int) -> None:
        self.kind = kind
        self.step = step
        self.seen = 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        makes = event == "open" and isinstance(flags := arguments[2], int) and flags & os.O_EXCL
        if event not in _EVENTS and not makes:
            return
        self.seen += 1
        if self.seen < self.step or (self.kind == "once" and self.seen > self.step):
            return
        if self.kind == "kill":
            os._exit(9)
        if self.kind == "full":
            if event in _NEEDS_ROOM:
                raise OSError(errno.ENOSPC, "a fault")
            return
        raise OSError(errno.EIO, "a fault")


def stop_midway(event: str, arguments: tuple[object, ...]) -> None:
    """Stand still, with the locks in hand, when some names have changed and some have not."""
    if event == "os.rename" and arguments[1] == "a.txt":
        print("stopped", flush=True)  # noqa: T201  # what the test listens to
        os.kill(os.getpid(), signal.SIGSTOP)


def run(workspace: Workspace, fault: Fault) -> None:
    """Patch the workspace with a fault and tell what was told; never returns."""
    words = "ok"
    sys.addaudithook(fault)
    try:
        workspace.patch(PATCH, call_key=CALL)
    except ToolrailError as error:
        words = error.code
    # To a descriptor that is open already: the fault is still there.
    os.write(TOLD, f"{words} {'' if fault.seen >= fault.step else 'last'}".encode())
    os._exit(0)


def forked(workspace: Workspace, fault: Fault) -> str:
    """Patch in a child process and return what it told."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, TOLD)
        run(workspace, fault)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


def main(folder: str, kind: str) -> None:
    """Go through all steps, until a patch meets no fault any more; or stop in the middle of one."""
    logging.disable()
    top = Path(folder)
    if kind == "stop":
        sys.addaudithook(stop_midway)
        Workspace(top).patch(PATCH, call_key=CALL)
    for step in range(1, STEPS_MAX):
        workspace = prepare(top / str(step) / "ws")
        told = forked(workspace, Fault(kind, step))
        if kind == "kill" and step % 3 == 0 and not told:
            # The one who recovers dies as well, a few steps later.
            forked(workspace, Fault(kind, step // 3 % 7 + 1))
        (top / str(step) / "told").write_text(told.partition(" ")[0])
        if told.endswith("last"):
            return
    raise AssertionError("a patch has no end")


if __name__ == "__main__":
    main(*sys.argv[1:])
