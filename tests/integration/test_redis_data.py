"""The scripts of `compose/redis` on real data: back up, restore, repair.

Is: what the runbook and the page of `compose/` have people run beside the server. Is not: who may
do what in it (`test_redis_users.py`). Above: nothing. Below: `tests/redis_users.py`.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.redis_users import UserRedis, make_secrets, user_redis
from tests.servers import absent, redis_program
from toolrail.settings import own_environment

BOUND_S = 30.0


def in_data_folder(server: UserRedis, script: str, *words: str, stdin: bytes = b"") -> bytes:
    """Run a script of `compose/redis` as it runs in the container; return what it printed."""
    done = subprocess.run(
        ["sh", server.folder / "redis" / script, *words],
        input=stdin,
        cwd=server.data,
        env={**own_environment(), "SECRETS_DIR": str(server.folder / "secrets")},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.one_redis
def test_a_backup_is_restored_into_an_empty_server(redis_kind: str, tmp_path: Path) -> None:
    """Taken from a running server by its own user; the copy starts with it, and writes on."""
    if shutil.which("redis-cli") is None:
        absent("apt-get install redis-tools")
    program = redis_program(redis_kind)
    with user_redis(program, tmp_path / "old") as old:
        with old.connected("worker") as client:
            client.hset("toolrail:totals", "accepted:mcp", 3)
        socket = ("-s", str(old.socket))
        pong = in_data_folder(old, "cli.sh", "exporter", *socket, "ping")
        backup = in_data_folder(old, "backup.sh", *socket)
    make_secrets(tmp_path / "new")
    new = UserRedis(folder=tmp_path / "new")
    new.data.mkdir()
    in_data_folder(new, "restore.sh", stdin=backup)
    with user_redis(program, new.folder) as new, new.connected("worker") as client:
        client.hincrby("toolrail:totals", "accepted:mcp", 1)
        total = client.hget("toolrail:totals", "accepted:mcp")
    with pytest.raises(AssertionError, match="remove the volume first"):
        in_data_folder(new, "restore.sh", stdin=backup)

    assert (pong, total) == (b"PONG\n", "4")


def test_a_damaged_file_is_cut_off_and_kept(tmp_path: Path) -> None:
    """The server does not start with it; repaired, it has all that stood before the damage."""
    if shutil.which("redis-check-aof") is None:
        absent("apt-get install redis-tools")
    program, folder = redis_program("redis7"), tmp_path / "cell"
    with user_redis(program, folder) as server, server.connected("worker") as client:
        client.set("toolrail:before", 1)
    [file] = (server.data / "appendonlydir").glob("*.incr.aof")
    damaged = file.read_bytes() + b"*3\r\n$3\r\nSET\r\n$broken\r\n*1\r\n$4\r\nPING\r\n"
    file.write_bytes(damaged)
    refused = subprocess.run(
        [
            program,
            folder / "redis" / "redis.conf",
            "--port",
            "0",
            "--aclfile",
            folder / "users.acl",
        ],
        cwd=server.data,
        capture_output=True,
        check=False,
        timeout=BOUND_S,
    )
    in_data_folder(server, "repair.sh", stdin=b"y\n")
    with user_redis(program, folder) as server, server.connected("worker") as client:
        found = client.get("toolrail:before")
    [kept] = server.data.glob(f"appendonlydir.*/{file.name}")

    assert refused.returncode != 0
    assert found == "1"
    assert kept.read_bytes() == damaged
