"""`toolrail policy` without a cluster: what is printed, and which code a script gets.

Is: the commands as a user types them. Is not: the registry (`tests/integration/test_policy_cli.py`)
or the decisions. Above: nothing. Below: `toolrail.cli`.
"""

import json
import socket
from pathlib import Path

import pytest

from tests.policies import write
from toolrail.cli.main import run

MODULE = "tests.component.policy_tools"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder without a cluster, a Redis that refuses, and two installed tools."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLRAIL_REDIS_URL", f"redis://127.0.0.1:{port}/0")
    monkeypatch.setenv("TOOLRAIL_TOOL_MODULES", MODULE)


def test_an_allowed_tool_is_explained_with_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    """The headline, the reason, and the rule that decided."""
    code = run(["policy", "explain", "notes.read", "--profile", "assistant"])
    out = capsys.readouterr().out

    assert code == 0
    assert out.splitlines()[:3] == [
        "notes.read for caller assistant on surface core: ALLOWED",
        "  Allowed by profile assistant, rule allow[source:builtin].",
        "  code allowed",
    ]


def test_a_tool_that_needs_approval_is_code_0_too(capsys: pytest.CaptureFixture[str]) -> None:
    """It may happen, once a person agrees."""
    code = run(["policy", "explain", "notes.wipe"])

    assert code == 0
    assert "ALLOWED WITH APPROVAL" in capsys.readouterr().out


def test_a_denied_tool_is_explained_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts tell a refusal from an error."""
    code = run(["policy", "explain", "notes.wipe", "--profile", "reader"])
    out = capsys.readouterr().out

    assert code == 2
    assert "DENIED" in out
    assert "A reader changes nothing." in out


def test_an_unknown_tool_is_an_error_with_the_nearest_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Policy has no answer for what does not exist."""
    code = run(["policy", "explain", "notes.raed"])

    assert code == 1
    assert capsys.readouterr().err.endswith(
        "error: There is no tool 'notes.raed'.\n  Did you mean 'notes.read'?\n"
    )


def test_an_mcp_tool_nobody_knows_is_taken_for_an_untrusted_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rules for servers can be tried before the servers run."""
    code = run(["policy", "explain", "mcp.github.create_issue", "--json"])
    shown = capsys.readouterr()
    data = json.loads(shown.out)

    assert code == 0
    assert data["spec_from"] == "assumed"
    assert data["decision"]["approval_required_by"] == ["profile", "spec"]
    assert "note: nobody here knows mcp.github.create_issue" in shown.err


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--caller", "subagent"], 0),
        (["--user", "ana"], 2),
        (["--surface", "workbench"], 0),
    ],
)
def test_the_question_can_be_asked_for_any_user_and_caller(
    tmp_path: Path, options: list[str], code: int
) -> None:
    """Each option is a part of the resolver's input."""
    folder = write(
        tmp_path / "policy",
        {
            "profiles/assistant.toml": 'allow = ["notes.*"]',
            "users/ana.toml": 'deny = ["notes.read"]',
        },
    )

    told = run(["policy", "explain", "notes.read", "--policy-dir", str(folder), *options])

    assert told == code


def test_arguments_that_are_no_object_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is decided about them."""
    code = run(["policy", "explain", "notes.read", "--args", "[1]"])

    assert code == 64
    assert "--args: must be a JSON object." in capsys.readouterr().err


def test_check_tells_every_problem_and_ends_with_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run of the check, all corrections."""
    write(tmp_path / "p", {"platform.toml": "denny = []\n", "source.toml": 'allow = "a.b"\n'})

    code = run(["policy", "check", "p"])
    err = capsys.readouterr().err

    assert code == 1
    assert err == (
        "error: p/platform.toml:1: denny: unknown key.\n  fix: Did you mean 'deny'?\n"
        "error: p/source.toml:1: allow: must be a list.\n  fix: Put it in square brackets.\n"
    )


def test_check_warns_of_rules_that_match_no_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelled name is seen; rules for servers wait for a cluster."""
    files = {"profiles/p.toml": 'allow = ["notes.raed", "notes.*", "mcp.github.*", "nets.*"]'}
    write(tmp_path / "p", files)

    code = run(["policy", "check", "p"])
    shown = capsys.readouterr()

    assert code == 0
    assert shown.out == "p: 1 profile, 0 users, 0 rules, 0 examples; nothing is wrong\n"
    assert shown.err == (
        "note: no cluster answered, so rules for MCP servers and extensions were not looked up.\n"
        "warning: profile p: allow[nets.*]: 'nets.*' matches no tool.\n"
        "warning: profile p: allow[notes.raed]: 'notes.raed' matches no tool. "
        "Did you mean 'notes.read'?\n"
    )


def test_check_without_a_folder_checks_the_built_in_policy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its rules hold their own examples."""
    code = run(["policy", "check"])

    assert code == 0
    assert capsys.readouterr().out.endswith(
        "3 profiles, 0 users, 2 rules, 4 examples; nothing is wrong\n"
    )
