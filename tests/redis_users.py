"""A Redis as `compose/` runs it: its own configuration, one user per role, nobody else.

Is: the files of `compose/redis`, the secrets of `compose/secrets/make.sh`, a real server. Is not:
a container. Above: `integration/test_redis_users.py`. Below: `tests/servers.py`.
"""

import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import redis
from pydantic import SecretStr

from tests.sources import ROOT
from tests.waiting import wait_until
from toolrail.embedded import end_with_parent
from toolrail.settings import Settings, fill_password

COMPOSE = ROOT / "compose"
ROLES = ("client", "worker", "extension", "exporter", "backup")
WATCHER = "user watcher on nopass ~* &* +@all\n"
"""A user of the test, who may look at what was refused to the others."""


@dataclass(frozen=True, kw_only=True)
class UserRedis:
    """A server, running or not."""

    folder: Path

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.folder / "redis.sock"

    @property
    def data(self) -> Path:
        """Where it starts, and has its append-only file."""
        return self.folder / "data"

    def secret_file(self, name: str) -> Path:
        """Return the file of one secret."""
        return self.folder / "secrets" / name

    def url(self, role: str) -> str:
        """Return the URL of a role, without its password."""
        return f"unix://{role}@{self.socket}?db=0"

    def settings(self, role: str, **more: object) -> Settings:
        """Return the settings of a process with this role, as it would read them."""
        password_file = self.secret_file(f"redis_{role}_password")
        secret_file = self.secret_file("toolrail_secret")
        return Settings.model_validate(
            {
                "redis_url": fill_password(self.url(role), password_file),
                "redis_password_file": password_file,
                "secret_file": secret_file,
                "secret": SecretStr(secret_file.read_text(encoding="utf-8").strip()),
                "state_dir": self.folder / "state",
                "workspace_root": self.folder / "workspaces",
                **more,
            }
        )

    @contextmanager
    def connected(self, role: str) -> Generator["redis.Redis"]:
        """Give a connection of a role; the watcher has no password."""
        url = self.url(role) if role == "watcher" else self.settings(role).redis_url
        with redis.Redis.from_url(url, decode_responses=True) as client:
            yield client

    def refused(self) -> list[str]:
        """Return what was refused to anybody so far, newest first."""
        with self.connected("watcher") as client:
            return [
                f"{entry['username']}: {entry['reason']} {entry['object']}"
                for entry in client.acl_log()
            ]


def make_secrets(folder: Path, *names: str) -> "subprocess.CompletedProcess[str]":
    """Run `secrets/make.sh` on a copy of its folder; the first time, make the copy."""
    if not folder.exists():
        (folder / "secrets").mkdir(parents=True)
        shutil.copy(COMPOSE / "secrets" / "make.sh", folder / "secrets")
        shutil.copytree(COMPOSE / "redis", folder / "redis")
    return subprocess.run(
        ["sh", folder / "secrets" / "make.sh", *names],
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def user_redis(program: Path, folder: Path, *options: str) -> Generator[UserRedis]:
    """Run a server with the users of `compose/`.

    Args:
        program: Of Redis or Valkey.
        folder: Of this server; what is absent is made.
        options: Further ones for the server.
    """
    made = make_secrets(folder)
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    users = folder / "users.acl"
    users.write_text((folder / "secrets" / "users.acl").read_text(encoding="utf-8") + WATCHER)
    server = UserRedis(folder=folder)
    log_file = folder / "server.log"
    server.data.mkdir(exist_ok=True)
    command: list[str | Path] = [program, folder / "redis" / "redis.conf", "--port", "0"]
    command += ["--unixsocket", server.socket, "--aclfile", users, *options]
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            end_with_parent(command), cwd=server.data, stdout=log, stderr=log
        )

    def answers() -> bool:
        assert process.poll() is None, log_file.read_text(encoding="utf-8")
        with suppress(redis.ConnectionError), server.connected("watcher") as client:
            return bool(client.ping())
        return False

    try:
        wait_until(answers, "the server with users")
        yield server
    finally:
        process.terminate()
        process.wait(10)
