"""Runs and journals from a terminal, against a real Redis and no worker.

Is: `toolrail run`, `journal` and `call` as a user types them. Is not: calls that are executed (the
demo and the cluster tests).
Above: nothing. Below: `toolrail.cli`.
"""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolrail.cli.main import run
from toolrail.settings import Settings

RUN_ID = re.compile(r"run_[0-9A-HJKMNP-TV-Z]{26}")
NO_RUN = "run_01J00000000000000000000000"


@pytest.fixture(autouse=True)
def environment(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the commands find the test's Redis, and leave logging as it was."""
    for name, value in settings.to_env().items():
        monkeypatch.setenv(name, value)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


def open_run(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Open a run and return its id."""
    assert run(["run", "open", *options]) == 0
    return capsys.readouterr().out.strip()


def page_fields(page: str) -> set[tuple[str, str]]:
    """Return the names and values that stand in the head of a page."""
    return {
        (name, value.strip())
        for name, _, value in (line.partition("  ") for line in page.split("\n"))
    }


def test_a_run_is_opened_shown_and_completed(capsys: pytest.CaptureFixture[str]) -> None:
    """The id is all that `open` prints, fit for a shell variable."""
    run_id = open_run(capsys, "--tenant", "acme")
    shown = run(["run", "show", run_id]), capsys.readouterr().out
    completed = run(["run", "complete", run_id]), capsys.readouterr().out
    twice = run(["run", "complete", run_id]), capsys.readouterr().out
    late = run(["run", "cancel", run_id]), capsys.readouterr()
    again = run(["run", "show", run_id]), capsys.readouterr().out

    assert RUN_ID.fullmatch(run_id)
    assert shown[0] == 0
    assert {("status", "open"), ("tenant", "acme")} <= page_fields(shown[1])
    assert completed == twice == (0, "completed\n")
    assert (late[0], late[1].out) == (4, "")
    assert "The run is completed already." in late[1].err
    assert ("status", "completed") in page_fields(again[1])


def test_a_named_run_is_opened_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The second opening gives the same run."""
    assert open_run(capsys, "--name", "job 7") == open_run(capsys, "--name", "job 7")


def test_a_cancelled_run_says_so_in_its_journal(capsys: pytest.CaptureFixture[str]) -> None:
    """The journal can be followed to its end, as text and as JSON."""
    run_id = open_run(capsys)
    run(["run", "cancel", run_id])
    capsys.readouterr()
    text = run(["journal", run_id]), capsys.readouterr().out.splitlines()
    lines = run(["journal", run_id, "--follow", "--json"]), capsys.readouterr().out.splitlines()
    later = run(["journal", run_id, "--after", "1"]), capsys.readouterr().out.splitlines()

    assert text[0] == lines[0] == later[0] == 0
    assert "run_cancelled" in text[1][-1]
    assert [json.loads(line)["seq"] for line in lines[1]] == list(range(1, len(text[1]) + 1))
    assert later[1] == text[1][1:]


@pytest.mark.parametrize("run_id", [NO_RUN, "run_*", "no run{}:\n", ""])
@pytest.mark.parametrize(
    ("command", "code"), [(["journal"], 1), (["run", "show"], 1), (["call", "a.b", "--run"], 3)]
)
def test_an_unknown_run_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], command: list[str], code: int, run_id: str
) -> None:
    """Whatever is written in its place; 3 where 1 would be a tool's answer."""
    ended = run([*command, run_id])
    err = capsys.readouterr().err

    assert ended == code
    assert err.startswith("error: There is no run")
    assert "Traceback" not in err


def test_an_unknown_profile_is_one_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    """It names the profiles that exist."""
    code = run(["run", "open", "--profile", "nosuch"])
    err = capsys.readouterr().err

    assert code == 78
    assert err.startswith("error: ")
    assert "nosuch" in err


@pytest.mark.parametrize("args", ["[1]", "{", "NaN", '{"a": 1, "a": 2}'])
def test_a_call_that_nobody_can_run_answers_and_ends_its_run(
    capsys: pytest.CaptureFixture[str], args: str
) -> None:
    """No worker is needed to hear that there is no such tool; exit code 1."""
    code = run(["call", "no.such_tool", "--args", args, "--json"])
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    found = RUN_ID.search(captured.err)
    assert found is not None
    run(["run", "show", found[0]])

    assert code == 1
    assert result["error_code"] == "tool.not_found"
    assert ("status", "completed") in page_fields(capsys.readouterr().out)


def test_a_call_in_a_run_that_has_ended_ends_with_the_code_of_what_stands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """4, and not the 3 that says to try again."""
    run(["run", "open"])
    run_id = capsys.readouterr().out.strip()
    run(["run", "cancel", run_id])
    code = run(["call", "workspace.list_files", "--run", run_id])

    assert code == 4
    assert "takes no more calls" in capsys.readouterr().err


def test_a_file_of_arguments_that_is_not_there_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Before any run is opened."""
    code = run(["call", "no.such_tool", "--args", f"@{tmp_path}/gone.json"])

    assert code == 64
    assert "gone.json cannot be read: No such file or directory" in capsys.readouterr().err
