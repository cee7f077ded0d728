"""A container engine for one smoke test: podman in a folder and namespaces of its own.

Is: podman's service, the health checks that systemd would run, and an end that leaves nothing.
Is not: what is run in it (`stack.py`). Above: `__main__.py`. Below: podman, runc, util-linux.

Nothing is shared with the machine's own podman: images, containers and locks are in the folder,
networks and mounts in namespaces that end with their last process. Whatever a container leaves
behind becomes a child of this process, which ends it.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.waiting import wait_until
from toolrail.settings import own_environment

PREFIX = "toolrail-smoke-"
NEEDED = ("podman", "runc", "iptables", "ip", "unshare", "nsenter", "debootstrap")
PACKAGES = "podman runc netavark aardvark-dns iptables catatonit iproute2 util-linux debootstrap"
SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: orphans of what we start become ours instead of the machine's."""
HEALTH_S = 1.0
WELL_EACH = 8
"""Rounds after which a healthy container is asked again; one that starts is asked in each."""
ENDS_S = 20.0

HOLDER = """\
ip link set lo up
for folder in /run/containers /run/netns /var/lib/containers; do
    mkdir -p $folder
    mount -t tmpfs none $folder
done
echo ready
exec cat
"""
"""Holds the namespaces until its standard input ends. The folders are those that podman shares
between all its instances, whatever its configuration says."""

CONFIG = """\
[containers]
# More needs CAP_SYS_RESOURCE, which a container as host of this test does not have.
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
# The usual 300 s would keep a process per health check for so long.
exit_command_delay = 1
tmp_dir = "{folder}/libpod"
static_dir = "{folder}/static"
volume_path = "{folder}/volumes"
[network]
network_config_dir = "{folder}/networks"
"""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/images"
runroot = "{folder}/run"
"""


def why_not() -> str | None:
    """Return why this machine cannot run the smoke test, None when it can."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces and containers"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not found: apt-get install {PACKAGES}"
    return None


class Engine:
    """Podman as a Docker engine, to be entered with `with`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._groups = control_groups()
        self._holder: subprocess.Popen[bytes] | None = None
        self._service: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._nurse = threading.Thread(target=self._nurse_all, name="health", daemon=True)

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which podman and Compose find this engine and no other."""
        return {
            **own_environment(),
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "DOCKER_HOST": f"unix://{self.folder}/podman.sock",
        }

    def __enter__(self) -> Self:
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
        for name, text in (("containers.conf", CONFIG), ("storage.conf", STORAGE)):
            (self.folder / name).write_text(text.format(folder=self.folder), encoding="utf-8")
        command = ["unshare", "--mount", "--net", "--propagation", "private"]
        self._holder = subprocess.Popen(
            [*command, "sh", "-ec", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            pytest.fail("this machine gives no namespaces of our own")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """The service answers; containers that start are asked for their health."""
        socket = self.folder / "podman.sock"
        with (self.folder / "service.log").open("wb") as log:
            self._service = subprocess.Popen(
                self.command("system", "service", "--time", "0", f"unix://{socket}"),
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(socket.exists, "podman's service", timeout_s=ENDS_S)
        self._nurse.start()

    def command(self, *words: str | Path, network: bool = True) -> list[str | Path]:
        """Return the command line of a podman command in our namespaces.

        Args:
            words: Of podman.
            network: In our network, which leads nowhere; else in that of the machine.
        """
        assert self._holder is not None
        namespaces = ["--mount", "--net"] if network else ["--mount"]
        return ["nsenter", "--target", str(self._holder.pid), *namespaces, "podman", *words]

    def podman(self, *words: str | Path, network: bool = True) -> str:
        """Return what a podman command printed.

        Raises:
            CalledProcessError: It failed.
        """
        return run(*self.command(*words, network=network), env=self.environment)

    def close(self) -> None:
        """Everything that was started has ended, and the folder is gone."""
        self._ended.set()
        if self._nurse.is_alive():
            self._nurse.join()
        if self._service is not None:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.podman("rm", "--all", "--force", "--time", "0")
            self._service.terminate()
            self._service.wait(ENDS_S)
        if self._holder is not None:
            self._holder.communicate()
        self._end_children()
        for group in sorted(control_groups() - self._groups, reverse=True):
            group.rmdir()
        shutil.rmtree(self.folder)

    def _end_children(self) -> None:
        """End and reap whatever became our child: they are orphans of this engine."""

        def none_left() -> bool:
            for pid in children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            return not children()

        wait_until(none_left, "the end of all that was started", timeout_s=ENDS_S)

    def _nurse_all(self) -> None:
        """Run the health checks, as systemd's timers would."""
        rounds = 0
        while not self._ended.wait(HEALTH_S):
            rounds += 1
            with contextlib.suppress(subprocess.CalledProcessError):
                listed = self.podman("ps", "--format", "{{.ID}} {{.Status}}")
                for line in listed.splitlines():
                    name, _, status = line.partition(" ")
                    well = status.endswith("(healthy)")
                    if status.endswith(")") and (not well or rounds % WELL_EACH == 0):
                        with contextlib.suppress(subprocess.CalledProcessError):
                            self.podman("healthcheck", "run", name)


def run(
    *words: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Return what a program printed.

    Raises:
        CalledProcessError: It failed; `stderr` says why.
    """
    done = subprocess.run(
        words,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def children() -> list[int]:
    """Return the processes whose parent we are, ended ones included."""
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in _children_of(task)]


def _children_of(task: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        yield from (task / "children").read_text(encoding="ascii").split()


def control_groups() -> set[Path]:
    """Return the control groups that podman keeps, in either version of the hierarchy."""
    root = Path("/sys/fs/cgroup")
    tops = (*root.glob("libpod_parent"), *root.glob("*/libpod_parent"))
    return {group for top in tops for group in (top, *top.rglob("*/"))}
