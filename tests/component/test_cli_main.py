"""The process edge of the CLI: what a user sees and which code a script gets.

Is: `toolrail.cli.main` with commands of our own making. Is not: the real commands.
Above: nothing. Below: `toolrail.cli`.
"""

import re
import subprocess
import sys
from dataclasses import dataclass

import pytest
import typer

from tests.cli import all_leaves
from toolrail.cli.catalogue import Command, Entry, all_commands
from toolrail.cli.main import run
from toolrail.cli.options import CommandExit, GlobalOptions
from toolrail.errors import ConfigError, RedisTooOld

GROUPS = ("approvals", "dlq", "policy", "run")
HEAVY = ("celery", "kombu", "redis", "pydantic", "mcp", "jsonschema_rs")
"""What `toolrail --help` has no use for; each costs more than all of its own work."""


@dataclass(frozen=True)
class Planted:
    """A command that runs a function of the test."""

    name: str
    command: Command

    def help(self) -> str:
        return "A planted command."

    def load(self) -> Command:
        return self.command


def run_planted(command: Command, *options: str) -> int:
    """Run one planted command and return the exit code."""
    return run([*options, "planted"], commands={"planted": Planted("planted", command)})


def test_an_error_of_ours_is_one_sentence_and_its_own_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A user never sees a traceback for a failure that has a name."""

    def command() -> None:
        raise RedisTooOld

    code = run_planted(command)
    err = capsys.readouterr().err

    assert code == 3
    assert err == f"error: {RedisTooOld.default_message()}\n"


def test_the_fix_of_a_configuration_error_stands_on_its_own_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is wrong first, what to do below it."""

    def command() -> None:
        raise ConfigError("must be a number.", fix="Correct it.", key="TOOLRAIL_SLOTS")

    run_planted(command)

    assert capsys.readouterr().err == (
        "error: TOOLRAIL_SLOTS: must be a number.\n  fix: Correct it.\n"
    )


def test_an_error_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of tools and tenants come from outside and stand in messages; lines stay lines."""

    def command() -> None:
        raise RedisTooOld("one \x1b[2J\u202e\rname\nsecond line")

    run_planted(command)

    assert capsys.readouterr().err == ("error: one \\x1b[2J\\u202e\\rname\n  second line\n")


def test_debug_shows_the_traceback_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The option for whoever looks into it."""

    def command() -> None:
        raise RedisTooOld

    run_planted(command, "--debug")

    assert "Traceback" in capsys.readouterr().err


def test_an_unexpected_exception_says_that_it_is_a_bug(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its name and text, and how to get the trace; exit code 3."""

    def command() -> None:
        raise KeyError("missing")

    code = run_planted(command)
    err = capsys.readouterr().err

    assert code == 3
    assert err.startswith("error: KeyError: 'missing'\n")
    assert "Traceback" not in err


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_a_command_chooses_its_own_exit_code(code: int) -> None:
    """`toolrail try` answers 0 to 3."""

    def command() -> None:
        raise CommandExit(code)

    assert run_planted(command) == code


@pytest.mark.parametrize("line", [["nonsense"], ["version", "--nonsense"], ["--nonsense"]])
def test_wrong_usage_is_not_mistaken_for_an_answer(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """64 and not 2, which `toolrail try` uses for "denied by policy"."""
    assert run(line) == 64
    assert "Usage" in capsys.readouterr().err


def test_global_options_reach_the_command() -> None:
    """They stand before the command."""
    seen: list[object] = []

    def command(context: typer.Context) -> None:
        seen.append(context.obj)

    run_planted(command, "--debug", "--log-format", "json")

    assert seen == [GlobalOptions(is_debugging=True, log_level="debug", log_format="json")]


def test_help_lists_every_command_and_loads_nothing_heavy() -> None:
    """Start-up stays quick because nothing is imported before it is used."""
    code = (
        "import sys\nfrom toolrail.cli.main import run\nrun(['--help'])\n"
        f"print('loaded:', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert result.stderr == ""
    assert result.stdout.endswith("loaded: []\n")
    assert [name for name in all_commands() if f" {name} " not in result.stdout] == []


@pytest.mark.parametrize("command", ["", *all_leaves(), *GROUPS])
@pytest.mark.parametrize("columns", ["60", "80"])
def test_help_cuts_no_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, columns: str
) -> None:
    """What cannot be read cannot be typed; nor is a sentence cut where there is room as usual."""
    monkeypatch.setenv("COLUMNS", columns)
    run([*command.split(), "--help"])
    shown = capsys.readouterr().out
    options = all_leaves().get(command, frozenset())

    assert [o for o in options if not re.search(rf"^  .*{o}\b", shown, re.MULTILINE)] == []
    assert "\u2026" not in shown
    assert columns == "60" or not re.search(r"\w\.\.\.$", shown, re.MULTILINE)


def test_the_package_runs_as_a_module() -> None:
    """The supervisor starts workers without a console script on PATH."""
    result = subprocess.run(
        [sys.executable, "-m", "toolrail", "version"], capture_output=True, text=True
    )

    assert result.returncode == 0
    assert result.stdout.startswith("toolrail ")


def test_a_command_that_cannot_be_imported_does_not_hide_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A broken plug-in costs its own line of the help, nothing more."""

    class Broken:
        name = "broken"

        def help(self) -> str:
            return "(cannot be loaded: No module named 'gone')"

        def load(self) -> Command:
            raise ModuleNotFoundError("No module named 'gone'")

    def fine() -> None:
        return None

    commands: dict[str, Entry] = {"broken": Broken(), "planted": Planted("planted", fine)}

    assert run(["planted"], commands=commands) == 0
    assert run(["--help"], commands=commands) == 0
    assert run(["broken"], commands=commands) == 3
    assert "No module named 'gone'" in capsys.readouterr().err
