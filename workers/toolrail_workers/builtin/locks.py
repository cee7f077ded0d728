"""Let one writer at a time touch a path of a workspace, across threads and processes.

Is: a lock per path, taken for several paths in one order, released by the kernel when a worker
dies. Is not: a lock between hosts: a workspace is one file system that `flock` spans. A workspace
that is shared by hosts needs the Redis lock with a fencing token, which comes with checkpoints.
Above: `run_workspace.py`. Below: `fcntl.flock`.

Paths share 64 lock files by hash: lock files are never removed, because removing one that
another process is about to lock would let two in, and they must not grow with the workspace.
"""

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable

from toolrail_workers.builtin.paths import LogicalPath

STRIPES = 64
_POLL_S = 0.002
_POLL_CAP_S = 0.05


def path_key(path: LogicalPath) -> str:
    """Return hex digits that stand for a path in file names."""
    return hashlib.sha256(str(path).encode()).hexdigest()


def stripe_of(path: LogicalPath) -> str:
    """Return the name of the lock, and of the version file, that a path shares."""
    return f"{int(path_key(path)[:8], 16) % STRIPES:02x}"


class Busy(Exception):
    """Somebody has the lock, and the caller does not wait."""


class ThreadLocks:
    """One lock per key for the threads of this process; forgotten when nobody uses it.

    `flock` alone would exclude threads too, but they would have to poll for each other.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[tuple[int, int, str], tuple[threading.Lock, int]] = {}

    @contextlib.contextmanager
    def hold(self, key: tuple[int, int, str], check: Callable[[], None]) -> Generator[None]:
        """Hold the lock of `key`; `check` is called while waiting and raises to give up."""
        with self._guard:
            lock, users = self._locks.get(key, (threading.Lock(), 0))
            self._locks[key] = (lock, users + 1)
        try:
            if not lock.acquire(blocking=False):
                check()
                while not lock.acquire(timeout=_POLL_CAP_S):
                    check()
            try:
                yield
            finally:
                lock.release()
        finally:
            with self._guard:
                lock, users = self._locks[key]
                if users == 1:
                    del self._locks[key]
                else:
                    self._locks[key] = (lock, users - 1)


class PathLocks:
    """The locks of one workspace."""

    def __init__(self, directory: int, threads: ThreadLocks) -> None:
        """Use the lock files in `directory`, a descriptor the caller keeps open."""
        self._directory = directory
        self._threads = threads
        status = os.fstat(directory)
        self._identity = (status.st_dev, status.st_ino)

    def hold(
        self, paths: Iterable[LogicalPath], check: Callable[[], None]
    ) -> contextlib.AbstractContextManager[None]:
        """Hold the locks of all `paths`, taken in one order so that two callers cannot deadlock.

        Args:
            paths: Whose files are read, compared and replaced inside.
            check: Called while waiting; raises when the call was cancelled or is too late.
        """
        return self._held({stripe_of(path) for path in paths}, check)

    def hold_all(self, check: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        """Hold every lock: nobody who keeps to the locks changes any file meanwhile."""
        return self._held({f"{number:02x}" for number in range(STRIPES)}, check)

    def try_hold(self, paths: Iterable[LogicalPath]) -> contextlib.AbstractContextManager[None]:
        """Hold the locks of all `paths` if they are free.

        Raises:
            Busy: From entering it, when somebody has one of them.
        """
        return self.hold(paths, _give_up)

    @contextlib.contextmanager
    def _held(self, stripes: Iterable[str], check: Callable[[], None]) -> Generator[None]:
        with contextlib.ExitStack() as stack:
            for stripe in sorted(stripes):
                stack.enter_context(self._threads.hold((*self._identity, stripe), check))
                stack.enter_context(self._flocked(stripe, check))
            yield

    @contextlib.contextmanager
    def _flocked(self, stripe: str, check: Callable[[], None]) -> Generator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(stripe, flags, 0o600, dir_fd=self._directory)
        try:
            pause_s = _POLL_S
            while not _try_flock(descriptor):
                check()
                time.sleep(pause_s)  # noqa: TID251  # flock has no wait with a time limit
                pause_s = min(2 * pause_s, _POLL_CAP_S)
            yield
        finally:
            # Closing releases the lock; no other descriptor of this open file exists.
            os.close(descriptor)


def _try_flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _give_up() -> None:
    raise Busy
