"""`toolrail try`: one tool, no cluster, the same answer.

Is: the command from its words to its exit code. Is not: the tools' own tests.
Above: nothing. Below: `toolrail_workers.trial`.
"""

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import JsonValue

from toolrail.cli.main import run
from toolrail_schemas import JsonObject, ToolResult


@dataclass(frozen=True)
class Tried:
    """What a user saw."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> ToolResult:
        """The printed result of `--json`."""
        return ToolResult.model_validate_json(self.out)


class Bench:
    """Runs `toolrail try` in a workspace."""

    def __init__(self, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.workspace = workspace
        self._capsys = capsys

    def try_tool(self, name: str, args: JsonValue | str = None, *options: str) -> Tried:
        """Try a tool; text is passed as it is, anything else as JSON."""
        text = args if isinstance(args, str) else json.dumps(args or {})
        words = ["try", name, "--workspace", str(self.workspace), "--args", text, *options]
        code = run(words)
        captured = self._capsys.readouterr()
        return Tried(code, captured.out, captured.err)


@pytest.fixture
def bench(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """A workspace with one file, the trial tools, and logging left as it was."""
    monkeypatch.setenv("TOOLRAIL_TOOL_MODULES", "tests.trial_tools")
    workspace = tmp_path / "workspace"
    (workspace / "input").mkdir(parents=True)
    (workspace / "output").mkdir()
    (workspace / "input" / "a.txt").write_text("one\ntwo\n")
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield Bench(workspace, capsys)
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_builtin_reads_the_given_workspace(bench: Bench) -> None:
    """Exit code 0 and the text a model would be shown."""
    tried = bench.try_tool("workspace.read_file", {"path": "input/a.txt"})

    assert tried.code == 0
    assert "one\n" in tried.out
    assert tried.err == ""


def test_a_builtin_writes_into_the_given_workspace(bench: Bench) -> None:
    """What it stores beside is noted, not kept."""
    args: JsonObject = {"path": "output/b.txt", "content": "new\n", "mode": "create"}
    tried = bench.try_tool("workspace.write_file", args, "--json")

    assert tried.code == 0
    assert (bench.workspace / "output" / "b.txt").read_text() == "new\n"
    assert not tried.result.is_error
    assert "stored, not kept" in tried.err


def test_without_a_workspace_the_tool_sees_an_empty_one(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of the user's own is touched."""
    code = run(["try", "workspace.list_files"])

    assert code == 0
    assert "input/" in capsys.readouterr().out


def test_a_path_out_of_the_workspace_is_exit_code_3(bench: Bench) -> None:
    """It would fail the run."""
    tried = bench.try_tool("workspace.read_file", {"path": "../../etc/passwd"}, "--json")

    assert tried.code == 3
    assert tried.result.error_code == "workspace.path_escape"


def test_a_teams_function_runs_in_a_child_process(bench: Bench) -> None:
    """With its isolation, as on a worker."""
    tried = bench.try_tool("trial.double", {"number": 21})
    answer = json.loads(tried.out)

    assert tried.code == 0
    assert answer["doubled"] == 42
    assert answer["pid"] != os.getpid()


@pytest.mark.parametrize(
    ("name", "code", "error_code"),
    [
        ("trial.sleep", 1, "tool.timeout"),
        ("trial.crash", 1, "tool.execution_failed"),
        ("trial.refuse", 1, "trial.refused"),
        ("trial.break_down", 3, "tool.internal_error"),
        ("trial.nosuch", 1, "tool.not_found"),
    ],
)
def test_each_way_to_fail_has_its_exit_code(
    bench: Bench, name: str, code: int, error_code: str
) -> None:
    """1 the model could correct it, 3 the run would fail."""
    tried = bench.try_tool(name, None, "--json")

    assert (tried.code, tried.result.error_code) == (code, error_code)


@pytest.mark.parametrize(
    "args", ["", "[1]", '{"number": ', '{"number": NaN}', '{"number": 1, "number": 2}', "{}", "nul"]
)
def test_bad_arguments_are_explained(bench: Bench, args: str) -> None:
    """As a model would be told; exit code 1."""
    tried = bench.try_tool("trial.double", args, "--json")

    assert tried.code == 1
    assert tried.result.error_code == "tool.invalid_arguments"


def test_arguments_come_from_a_file(bench: Bench, tmp_path: Path) -> None:
    """`@FILE`, for what is too long for a shell."""
    file = tmp_path / "args.json"
    file.write_text('{"number": 4}')

    assert json.loads(bench.try_tool("trial.double", f"@{file}").out)["doubled"] == 8


def test_output_is_cut_at_the_tools_own_limit(bench: Bench) -> None:
    """The model sees the beginning and a reference; progress is shown to the author."""
    tried = bench.try_tool("trial.shout", {"times": 1000}, "--json")

    assert tried.code == 0
    assert tried.result.truncated
    assert tried.result.usage.output_bytes == 15_000
    assert len(tried.out) < 5_000
    assert "50% half way" in tried.err


def test_a_profile_is_asked_when_it_is_named(bench: Bench) -> None:
    """Exit code 2; the author is told the reason that a model is not."""
    free = bench.try_tool("trial.erase")
    denied = bench.try_tool("trial.erase", None, "--profile", "reader", "--json")

    assert (free.code, free.out) == (0, "erased\n")
    assert denied.code == 2
    assert denied.result.error_class is not None
    assert denied.err.startswith("policy: ")


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["--profile", "nosuch"], 78, "nosuch"),
        (["--args", "@/no/such/file"], 64, "cannot be read"),
        (["--workspace", "/no/such/folder"], 64, "no folder"),
    ],
)
def test_a_wrong_option_is_neither_an_answer_of_the_tool_nor_of_a_policy(
    bench: Bench, options: list[str], code: int, word: str
) -> None:
    """One sentence, and a code above those of answers."""
    tried = bench.try_tool("trial.erase", None, *options)

    assert tried.code == code
    assert tried.err.startswith("error: ")
    assert word in tried.err
