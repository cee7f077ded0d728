"""Every command of `toolrail` ends with the code of the one table, whatever goes wrong.

Is: a walk over all commands with a wrong flag, a wrong setting and a Redis that is away. Is not:
what each command does when all is well. Above: nothing. Below: `toolrail.exit_codes`,
`tests/cli.py`.
"""

from pathlib import Path

import pytest

from tests.cli import Cli, all_leaves
from toolrail import errors, exit_codes
from toolrail.cli.failures import code_of
from toolrail.errors import ToolrailError
from toolrail.exit_codes import CONFIG, FAILED, INTERRUPTED, MEANINGS, OK, SYSTEM, USAGE

pytestmark = pytest.mark.one_redis

RUN = "run_" + "0" * 26
APPROVAL = f"{RUN}.{'a' * 16}"
WORDS = {
    "approvals approve": (APPROVAL,),
    "approvals deny": (APPROVAL,),
    "approvals edit": (APPROVAL, "--set", "text=1", "--yes"),
    "approvals list": (),
    "approvals show": (APPROVAL,),
    "approvals watch": (),
    "call": ("demo.echo",),
    "chat import": ("--chat", "c", "/dev/null"),
    "demo": (),
    "dlq discard": ("--by", "ana", APPROVAL),
    "dlq list": (),
    "dlq redrive": ("--by", "ana", APPROVAL),
    "dlq show": (APPROVAL,),
    "doctor": (),
    "drain": ("--all",),
    "exporter": (),
    "health": (),
    "journal": (RUN,),
    "policy check": (),
    "policy explain": ("workspace.read_file",),
    "queues": (),
    "run cancel": (RUN,),
    "run complete": (RUN,),
    "run open": (),
    "run show": (RUN,),
    "run tools": (RUN,),
    "runs": (),
    "try": ("workspace.list_files",),
    "up": (),
    "version": (),
    "worker": ("builtin",),
    "workers": (),
}
"""Every command, with what it needs to begin."""

WITHOUT_SETTINGS = {"version": OK, "health": FAILED, "doctor": FAILED}
"""A version has none, a health check knows only a port, and to doctor they are a finding."""
WITHOUT_REDIS = {
    **WITHOUT_SETTINGS,
    "chat import": OK,
    "policy check": OK,
    "policy explain": OK,
    "try": OK,
}
"""What is answered on this machine alone; to doctor it is a finding."""
WAITING = {"worker", "exporter", "demo"}
"""Workers and the exporter wait for a Redis that is away; the demo brings its own."""


def test_the_walk_knows_every_command() -> None:
    """A new command is walked too."""
    assert sorted(all_leaves()) == sorted(WORDS)


@pytest.mark.parametrize("command", WORDS)
def test_a_wrong_flag_is_64(cli: Cli, command: str) -> None:
    """Of any command; never the 2 of a policy."""
    said = cli(*command.split(), *WORDS[command], "--nonsense")

    assert (said.code, said.out) == (USAGE, "")
    assert "--nonsense" in said.err


@pytest.mark.parametrize("command", WORDS)
def test_a_wrong_setting_is_78(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """It is wrong however often a supervisor starts the command again."""
    monkeypatch.setenv("TOOLRAIL_SLOTS", "many")
    said = cli(*command.split(), *WORDS[command])

    assert said.code == WITHOUT_SETTINGS.get(command, CONFIG), said.err
    assert "Traceback" not in said.err
    if command not in WITHOUT_SETTINGS:
        assert said.err.startswith("error: TOOLRAIL_SLOTS")


@pytest.mark.parametrize("command", sorted(WORDS.keys() - WAITING))
def test_a_redis_that_is_away_is_3(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """Scripts tell it from a run that is not there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLRAIL_REDIS_URL", "redis://:hush@127.0.0.1:1/0")
    monkeypatch.setenv("TOOLRAIL_REDIS_TIMEOUT_S", "0.1")
    said = cli(*command.split(), *WORDS[command])

    assert said.code == WITHOUT_REDIS.get(command, SYSTEM), said.err
    assert "Traceback" not in said.err
    assert "hush" not in said.out + said.err


def test_every_error_has_a_code_that_the_table_explains() -> None:
    """No error leaves the program with a number that nobody can look up."""
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, ToolrailError)
    ]
    found = {code_of(cls.__new__(cls)) for cls in classes}

    assert found < MEANINGS.keys()
    assert code_of(KeyError("a bug")) == SYSTEM


def test_the_table_names_every_code_once() -> None:
    """A new code gets its words."""
    codes = [
        value for name, value in vars(exit_codes).items() if name.isupper() and name != "MEANINGS"
    ]

    assert sorted(codes) == sorted(MEANINGS)
    assert INTERRUPTED in MEANINGS


def test_the_help_shows_the_table(cli: Cli) -> None:
    """Nobody has to look for it."""
    shown = " ".join(cli("--help").out.split())

    assert [code for code, words in MEANINGS.items() if f"{code} {words}" not in shown] == []
