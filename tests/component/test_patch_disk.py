"""workspace.apply_patch on a real directory: the cases of semantics 5.5.8 that need a disk."""

import os
import stat
from pathlib import Path
from typing import cast

import pytest

from tests.component.workspaces import Workspace, code_of, facts_of, refusal, text_of
from tests.patching import envelope, update
from toolrail.errors import ToolError
from toolrail_schemas import EventType, JsonObject, sha256_hex

PATH = "output/a.txt"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A fresh run with its usual roots."""
    made = Workspace(tmp_path / "runs" / "ws")
    made.list()
    return made


def files_of(facts: JsonObject) -> list[JsonObject]:
    return cast("list[JsonObject]", facts["files"])


EDIT = update("-old", "+new")


# What there is already


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_case_1_adding_over_what_exists_is_refused(workspace: Workspace, kind: str) -> None:
    """Neither a file, nor a directory, nor a link is written over."""
    place = workspace.top / PATH
    if kind == "file":
        place.write_text("old")
    elif kind == "directory":
        place.mkdir()
    else:
        workspace.put("there", "output/there")
        place.symlink_to("there")
    before = workspace.tree()

    assert code_of(lambda: workspace.patch(envelope(f"*** Add File: {PATH}", "+x"))) == (
        "patch.target_exists"
    )
    assert workspace.tree() == before


def test_case_2_moving_onto_another_file_is_refused(workspace: Workspace) -> None:
    """Both stay."""
    workspace.put("one")
    workspace.put("two", "output/b.txt")
    patch = envelope(f"*** Update File: {PATH}", "*** Move to: output/b.txt")

    assert code_of(lambda: workspace.patch(patch)) == "patch.target_exists"
    assert workspace.tree()["output/b.txt"] == b"two"
    assert workspace.tree()[PATH] == b"one"


@pytest.mark.parametrize("target", [PATH, "./output//a.txt", r"output\a.txt"])
def test_cases_3_and_4_a_move_to_itself_is_an_update(workspace: Workspace, target: str) -> None:
    """However the path is spelled the file is never lost; without chunks nothing is to be done."""
    place = workspace.put("old\n")
    head = (f"*** Update File: {PATH}", f"*** Move to: {target}")

    assert code_of(lambda: workspace.patch(envelope(*head))) == "patch.no_change"
    assert place.read_text() == "old\n"
    workspace.patch(envelope(*head, "@@", "-old", "+new"))
    assert place.read_text() == "new\n"


def test_case_5_a_rename_of_case_alone_keeps_the_file(workspace: Workspace) -> None:
    """The new spelling is there, the old one is not."""
    workspace.put("old\n", "output/Readme.md")
    workspace.patch(envelope("*** Update File: output/Readme.md", "*** Move to: output/README.md"))

    assert os.listdir(workspace.top / "output") == ["README.md"]
    assert workspace.tree()["output/README.md"] == b"old\n"


def test_case_6_a_binary_file_is_renamed_untouched(workspace: Workspace) -> None:
    """Without chunks no byte is looked at as text."""
    content = bytes(range(256)) * 10
    workspace.put(content, "output/a.bin").chmod(0o640)
    output = workspace.patch(
        envelope("*** Update File: output/a.bin", "*** Move to: output/new/b.bin")
    )

    moved = workspace.top / "output/new/b.bin"
    assert moved.read_bytes() == content
    assert stat.S_IMODE(moved.stat().st_mode) == 0o640
    assert not (workspace.top / "output/a.bin").exists()
    assert text_of(output) == "R output/a.bin -> output/new/b.bin (+0 \N{MINUS SIGN}0)"


# What is no text, and what is odd text


@pytest.mark.parametrize(
    "content",
    ["中文 GBK".encode("gbk"), "Latin é".encode("latin-1"), "old\n".encode("utf-16")],
    ids=["gbk", "latin-1", "utf-16"],
)
def test_cases_14_and_15_other_encodings_are_refused_intact(
    workspace: Workspace, content: bytes
) -> None:
    """The answer says what the file is, and no byte changes."""
    place = workspace.put(content)
    output = workspace.patch(EDIT)

    assert output.error_code == "workspace.not_text"
    assert facts_of(output)["sha256"] == sha256_hex(content)
    assert place.read_bytes() == content


def test_cases_16_and_17_only_lf_ends_a_line_on_disk_too(workspace: Workspace) -> None:
    """Form feed, NEL, U+2028 and a lone CR are content."""
    odd = "a\x0cb\x85c\u2028d\re"
    place = workspace.put(f"{odd}\nold\n")
    workspace.patch(update(f" {odd}", "-old", "+new"))

    assert place.read_bytes() == f"{odd}\nnew\n".encode()


# All or nothing


def test_case_51_a_second_section_that_fails_leaves_the_first_undone(workspace: Workspace) -> None:
    """Nothing is written, not even a directory."""
    workspace.put("old\n")
    before = workspace.tree()
    patch = envelope(
        f"*** Update File: {PATH}",
        "-old",
        "+new",
        "*** Add File: output/deep/er/x",
        "+x",
        "*** Delete File: output/none",
    )

    error = refusal(lambda: workspace.patch(patch))

    assert error.code == "patch.file_not_found"
    assert workspace.tree() == before


def test_all_kinds_of_sections_happen_together(workspace: Workspace) -> None:
    """One patch, one answer in its order, with every file where it belongs."""
    workspace.put("old\n")
    workspace.put("gone\n", "scratch/gone.txt")
    workspace.put("one\ntwo\n", "plan/move.txt")
    output = workspace.patch(
        envelope(
            "*** Add File: output/new/deep.txt",
            "+added",
            f"*** Update File: {PATH}",
            "-old",
            "+new",
            "*** Delete File: scratch/gone.txt",
            "*** Update File: plan/move.txt",
            "*** Move to: plan/moved.txt",
            "@@",
            " one",
            "-two",
            "+three",
        )
    )

    assert workspace.tree() == {
        **dict.fromkeys(("input", "output", "scratch", "plan", "summaries", "persist")),
        "output/new": None,
        PATH: b"new\n",
        "output/new/deep.txt": b"added\n",
        "plan/moved.txt": b"one\nthree\n",
    }
    minus = "\N{MINUS SIGN}"
    assert text_of(output) == (
        f"A output/new/deep.txt (+1 {minus}0)\nM {PATH} (+1 {minus}1)\n"
        f"D scratch/gone.txt (+0 {minus}1)\nR plan/move.txt -> plan/moved.txt (+1 {minus}1)"
    )
    assert [file["op"] for file in files_of(facts_of(output))] == [
        "add",
        "update",
        "delete",
        "move",
    ]


def test_what_happened_is_told_to_the_journal(workspace: Workspace) -> None:
    """One event names every file with its versions, and none of its content."""
    workspace.put("old\n")
    output = workspace.patch(EDIT)

    kind, payload = output.events[0]
    assert kind is EventType.WORKSPACE_PATCH_APPLIED
    assert payload == {
        "files": [
            {
                "op": "update",
                "path": PATH,
                "old_sha256": sha256_hex(b"old\n"),
                "new_sha256": sha256_hex(b"new\n"),
                "added": 1,
                "removed": 1,
            }
        ]
    }


def test_a_failure_is_told_to_the_journal_too(workspace: Workspace) -> None:
    """With the code and the place, and none of the lines."""
    workspace.put("other\n")
    error = refusal(lambda: workspace.patch(EDIT))

    assert isinstance(error, ToolError)
    assert error.events == (
        (
            EventType.WORKSPACE_PATCH_FAILED,
            {
                "error_code": "patch.context_mismatch",
                "op": 1,
                "path": PATH,
                "current_sha256": sha256_hex(b"other\n"),
                "chunk": 1,
                "patch_line": 3,
            },
        ),
    )


def test_a_dry_run_says_the_same_and_does_nothing(workspace: Workspace) -> None:
    """The report is that of the patch; no byte, no event, no effect that a second attempt finds."""
    workspace.put("old\n")
    before = workspace.tree()
    tried = workspace.patch(EDIT, dry_run=True, call_key="d" * 16)
    assert workspace.tree() == before

    done = workspace.patch(EDIT, call_key="d" * 16)

    assert tried.events == ()
    assert tried.resource_refs == ()
    assert files_of(facts_of(tried)) == files_of(facts_of(done))
    assert (facts_of(tried)["dry_run"], facts_of(done)["dry_run"]) == (True, False)
    assert workspace.tree()[PATH] == b"new\n"


# Limits


def test_case_63_a_patch_of_5_mib_is_refused(workspace: Workspace) -> None:
    """Before it is read."""
    patch = envelope("*** Add File: output/x", *("+" + "x" * 99 for _ in range(50_000)))
    assert code_of(lambda: workspace.patch(patch)) == "patch.too_large"


def test_case_64_a_file_of_50_001_lines_is_refused(workspace: Workspace) -> None:
    """And so is one of more than 2 MiB; both stay."""
    place = workspace.put("\n" * 50_001)
    assert code_of(lambda: workspace.patch(EDIT)) == "patch.too_large"
    assert place.read_bytes() == b"\n" * 50_001

    place.write_bytes(b"x" * (2 * 1024 * 1024 + 1))
    assert code_of(lambda: workspace.patch(EDIT)) == "patch.too_large"
