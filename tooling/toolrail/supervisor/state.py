"""Remember a running cluster in its folder, so that other commands find it.

Is: the lock, the generated secret and `cluster.json` in the state folder. Is not: the cluster
(`cluster.py`), nor Redis data (`toolrail.embedded` keeps it beside).
Above: `cluster.py` writes, `toolrail.cli.start` reads. Below: `toolrail.settings`.

Everything here is readable by its owner only: the Redis URL has a password in it.
"""

import fcntl
import json
import os
import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from toolrail.errors import ClusterRunning
from toolrail.settings import Settings, fill_password

STATE_FILE = "cluster.json"
TARGETS_FILE = "prometheus_targets.json"
"""What Prometheus reads by `file_sd_configs` to scrape every process of the cluster."""
SECRET_FILE = "secret"  # noqa: S105  # a file name
_LOCK_FILE = "lock"
_SECRET_BYTES = 32

SHARED = (
    "redis_url",
    "redis_password_file",
    "broker_url",
    "key_prefix",
    "secret_file",
    "policy_dir",
    "workspace_root",
    "tool_modules",
    "mcp_servers_file",
)
"""Settings that a client must have in common with the cluster to use it at all."""


class ChildEntry(BaseModel):
    """One process of the cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    source: str | None
    pid: int | None
    address: str = ""
    """`host:port` where it listens, when it told."""


class ClusterState(BaseModel):
    """What `cluster.json` says about a running cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    supervisor_pid: int
    settings: dict[str, str]
    """Values of `SHARED` by field name, as an environment variable would spell them."""
    children: tuple[ChildEntry, ...]


class StateFolder:
    """The state folder of one cluster, held by its supervisor from `lock` to `release`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self._lock_fd = -1

    def lock(self) -> None:
        """Make this process the only supervisor of the folder.

        Raises:
            ClusterRunning: Another one has it.
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # It holds the secret, and lies in somebody's repository.
        (self.directory / ".gitignore").write_text("*\n", encoding="utf-8")
        lock_fd = os.open(self.directory / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # The kernel drops it with the process, however that ends; a pid file would go stale.
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock_fd)
            raise ClusterRunning from None
        self._lock_fd = lock_fd

    def release(self) -> None:
        """Forget the cluster and let another supervisor have the folder; may be called twice."""
        if self._lock_fd < 0:
            return
        for name in (STATE_FILE, TARGETS_FILE):
            (self.directory / name).unlink(missing_ok=True)
        os.close(self._lock_fd)
        self._lock_fd = -1

    def secret_file(self) -> Path:
        """Return the file with this folder's secret; it is made once and then kept.

        Kept, because doorbells of the last start may still lie in the queues.
        """
        file = self.directory / SECRET_FILE
        if not file.exists():
            write_private(file, secrets.token_hex(_SECRET_BYTES) + "\n")
        return file

    def write(self, state: ClusterState) -> None:
        """Replace `cluster.json` in one step; readers see the old or the new one."""
        write_private(self.directory / STATE_FILE, state.model_dump_json(indent=2) + "\n")
        targets = json.dumps(prometheus_targets(state.children), indent=2)
        write_private(self.directory / TARGETS_FILE, targets + "\n")


def prometheus_targets(children: Iterable[ChildEntry]) -> list[dict[str, object]]:
    """Return the children that listen, as `file_sd_configs` wants them: one group per job.

    The jobs are those of the deployment, so that dashboards and rules fit both. No label `source`:
    it would rename the metrics' own.
    """
    jobs: dict[str, list[str]] = {}
    for child in children:
        if child.address:
            job = "toolrail-exporter" if child.source is None else "toolrail-workers"
            jobs.setdefault(job, []).append(child.address)
    return [{"targets": targets, "labels": {"job": job}} for job, targets in jobs.items()]


def find_cluster(directory: Path) -> ClusterState | None:
    """Return the cluster that is up in this folder, None when there is none."""
    try:
        text = (directory / STATE_FILE).read_text(encoding="utf-8")
        if not _is_locked(directory / _LOCK_FILE):
            return None
        return ClusterState.model_validate_json(text)
    except (OSError, ValidationError):
        # Another user's folder, or one of another version of Toolrail: not ours to use.
        return None


def with_cluster(settings: Settings, state: ClusterState) -> Settings:
    """Return the settings completed by those of a running cluster; explicit ones win.

    Settings that name another Redis speak of another cluster, and nothing is taken over.
    """
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    shared = dict(state.settings)
    if "redis_password_file" in shared:
        complete = fill_password(shared["redis_url"], Path(shared["redis_password_file"]))
        if shared.get("broker_url") == shared["redis_url"]:
            shared["broker_url"] = complete
        shared["redis_url"] = complete
    if given.get("redis_url", shared.get("redis_url")) != shared.get("redis_url"):
        return settings
    values: dict[str, object] = {**shared, **given}
    if "secret" in given:
        values["secret_file"] = given.get("secret_file")
    elif "secret_file" in state.settings:
        values["secret"] = Path(state.settings["secret_file"]).read_text(encoding="utf-8").strip()
    return Settings.model_validate(values)


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read, replacing it in one step."""
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _is_locked(lock_file: Path) -> bool:
    with lock_file.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
