"""How a running cluster is found, and whose settings win.

Is: `toolrail.supervisor.state` and the scale option. Is not: a running cluster.
Above: nothing. Below: `toolrail.supervisor`.
"""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolrail.cli.up import parse_scale
from toolrail.errors import ClusterRunning, ConfigError
from toolrail.settings import Settings
from toolrail.supervisor.state import (
    STATE_FILE,
    TARGETS_FILE,
    ChildEntry,
    ClusterState,
    StateFolder,
    find_cluster,
    prometheus_targets,
    with_cluster,
)

URL = "redis://:pw@127.0.0.1:7001/0"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StateFolder]:
    """A state folder held by this process."""
    folder = StateFolder(tmp_path / ".toolrail")
    folder.lock()
    yield folder
    folder.release()


def state(**settings: str) -> ClusterState:
    """Return the state of a cluster with these settings."""
    return ClusterState(supervisor_pid=1, settings={"redis_url": URL, **settings}, children=())


def mode(file: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(file.stat().st_mode)


def test_a_written_cluster_is_found_until_it_is_released(folder: StateFolder) -> None:
    """Commands in the same folder see it for as long as its supervisor lives."""
    folder.write(state())

    assert find_cluster(folder.directory) == state()
    folder.release()
    assert find_cluster(folder.directory) is None


def test_prometheus_is_told_who_listens_and_whose_job_it_is(folder: StateFolder) -> None:
    """Children without an address are left out; the file goes with the cluster."""
    children = (
        ChildEntry(name="redis", source=None, pid=1),
        ChildEntry(name="mcp.1", source="mcp", pid=2, address="127.0.0.1:5001"),
        ChildEntry(name="mcp.2", source="mcp", pid=3),
        ChildEntry(name="builtin.1", source="builtin", pid=4, address="127.0.0.1:5002"),
        ChildEntry(name="exporter", source=None, pid=5, address="127.0.0.1:5003"),
    )
    folder.write(state().model_copy(update={"children": children}))
    text = (folder.directory / TARGETS_FILE).read_text(encoding="utf-8")
    folder.release()

    assert json.loads(text) == prometheus_targets(children)
    assert prometheus_targets(children) == [
        {
            "targets": ["127.0.0.1:5001", "127.0.0.1:5002"],
            "labels": {"job": "toolrail-workers"},
        },
        {"targets": ["127.0.0.1:5003"], "labels": {"job": "toolrail-exporter"}},
    ]
    assert "source" not in text, "it would rename the metrics' own label"
    assert not (folder.directory / TARGETS_FILE).exists()


def test_a_state_file_without_a_living_supervisor_is_not_a_cluster(folder: StateFolder) -> None:
    """A supervisor that was killed leaves a file behind, but no lock."""
    folder.write(state())
    left_behind = (folder.directory / STATE_FILE).read_text()
    folder.release()
    (folder.directory / STATE_FILE).write_text(left_behind)

    assert find_cluster(folder.directory) is None


@pytest.mark.parametrize("text", ["", "{", '{"supervisor_pid": 1, "from_the_future": true}'])
def test_a_state_file_that_cannot_be_read_is_not_a_cluster(folder: StateFolder, text: str) -> None:
    """Nobody's command fails because of a file it does not understand."""
    (folder.directory / STATE_FILE).write_text(text)

    assert find_cluster(folder.directory) is None


def test_two_supervisors_cannot_share_a_folder(folder: StateFolder) -> None:
    """The second one is told so."""
    with pytest.raises(ClusterRunning, match="TOOLRAIL_STATE_DIR"):
        StateFolder(folder.directory).lock()


def test_the_secret_is_made_once_and_is_readable_by_its_owner_only(folder: StateFolder) -> None:
    """Doorbells of the last start must still verify; other users must not sign any."""
    first = folder.secret_file().read_text()
    second = folder.secret_file().read_text()
    folder.write(state())

    assert first == second
    assert len(first.strip()) == 64
    assert mode(folder.secret_file()) == 0o600
    assert mode(folder.directory / STATE_FILE) == 0o600
    assert mode(folder.directory) == 0o700


def test_a_client_takes_redis_and_secret_from_the_cluster(folder: StateFolder) -> None:
    """No variable is needed in the folder of a running cluster."""
    secret_file = folder.secret_file()
    settings = with_cluster(Settings(), state(secret_file=str(secret_file), key_prefix="mine:"))

    assert settings.redis_url == URL
    assert settings.key_prefix == "mine:"
    assert settings.require_secret().decode() == secret_file.read_text().strip()


def test_a_client_takes_the_password_of_redis_from_the_clusters_file(tmp_path: Path) -> None:
    """The state folder names the file, and the password is read where it is kept."""
    file = tmp_path / "password"
    file.write_text("hush\n", encoding="utf-8")
    cluster = state(
        redis_url="redis://me@h/1",
        broker_url="redis://me@h/1",
        redis_password_file=str(file),
        secret="s" * 32,
    )

    settings = with_cluster(Settings(), cluster)

    assert settings.redis_url == settings.broker_url == "redis://me:hush@h/1"
    assert with_cluster(settings, cluster).redis_url == settings.redis_url


def test_what_the_environment_says_wins_over_the_cluster(folder: StateFolder) -> None:
    """An explicit setting is never replaced."""
    given = Settings.model_validate(
        {"key_prefix": "given:", "secret": "a secret of my own", "redis_url": URL}
    )
    settings = with_cluster(given, state(secret_file=str(folder.secret_file()), key_prefix="mine:"))

    assert settings.key_prefix == "given:"
    assert settings.require_secret() == b"a secret of my own"
    assert settings.secret_file is None


def test_another_redis_means_another_cluster(folder: StateFolder) -> None:
    """Half of one cluster's settings would be worse than none."""
    given = Settings(redis_url="redis://127.0.0.1:6379/0")

    assert with_cluster(given, state(secret_file=str(folder.secret_file()))) is given


def test_a_scale_names_workers_per_source() -> None:
    """Sources not named have one worker."""
    assert parse_scale([]) == {"builtin": 1, "mcp": 1, "extension": 1}
    assert parse_scale(["mcp=2", "builtin=3,extension=0"]) == {
        "builtin": 3,
        "mcp": 2,
        "extension": 0,
    }


@pytest.mark.parametrize(
    "text", ["mcp", "mcp=", "mcp=-1", "mcp=many", "nosuch=1", "=1", "", "mcp=100"]
)
def test_a_wrong_scale_says_how_to_write_it(text: str) -> None:
    """The message has the form and the sources."""
    with pytest.raises(ConfigError, match=r"SOURCE=COUNT.*builtin, mcp, extension"):
        parse_scale([text])
