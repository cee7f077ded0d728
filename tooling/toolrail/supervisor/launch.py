"""Start a program that cannot outlive the supervisor.

Is: a script of its own, run as `python -I -S launch.py PARENT_PID PROGRAM ARG...`: it asks the
kernel to kill this process when the supervisor dies, then becomes the program. Is not: imported
by anything; it uses the standard library only, so that it costs a few milliseconds.
Above: `child.py`, which starts every child through it. Below: prctl(2) on Linux; elsewhere the
program starts without that protection.

Why not `preexec_fn`: Python calls it between fork and exec in a process that may have threads,
where any lock may be held for ever.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Become the program named in `argv[1:]`; `argv[0]` is the supervisor's process id."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The supervisor may have died before the request above was made: nothing would kill us then.
    if os.getppid() != int(argv[0]):
        sys.exit(1)
    try:
        os.execvp(argv[1], argv[1:])  # noqa: S606  # no shell: the argument list is ours
    except OSError as error:
        sys.exit(f"cannot start {argv[1]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
