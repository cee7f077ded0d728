"""What holds for every patch: an edit, written down and applied, is the edit; noise is nothing.

Is: properties over random files and edits, and the comparison with `git apply`. Is not: single
cases (`test_patch_content.py`).
Above: nothing. Below: `tests/patching.py`, Hypothesis, git.
"""

import contextlib
import difflib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.patching import applied, planned, update
from toolrail.errors import SystemFailure, ToolError
from toolrail_workers.builtin.patching.overlay import NotText
from toolrail_workers.builtin.patching.problems import PatchError
from toolrail_workers.builtin.patching.tiers import Match

PATH = "output/a.txt"
WORDS = (
    "a",
    "b",
    "",
    "  a",
    "\tb",
    "-a",
    "+b",
    "--- a",
    "*** End Patch",
    "@@",
    "中文",
    "a ",
    "\\ x",
)

texts = st.sampled_from(WORDS)
endings = st.sampled_from(("\n", "\r\n"))


@st.composite
def files(draw: st.DrawFn) -> str:
    """Return a text: any endings, with or without a final newline."""
    lines = draw(st.lists(st.tuples(texts, endings), max_size=12))
    text = "".join(line + ending for line, ending in lines)
    return text + draw(st.sampled_from(("", "last")))


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, str]:
    """Return a text and what became of it by a few changes of lines."""
    before = draw(files())
    lines = before.split("\n")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines)))
        lines[at : at + draw(st.integers(0, 2))] = draw(st.lists(texts, max_size=2))
    return before, "\n".join(lines)


def diff_by_git(folder: Path, before: str, after: str, context: int) -> str:
    """Return git's diff of two texts, under the names of one file."""
    (folder / "before").write_bytes(before.encode())
    (folder / "after").write_bytes(after.encode())
    command = ["git", "diff", "--no-index", f"-U{context}", "before", "after"]
    diff = subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout.decode()
    return diff.replace("a/before", f"a/{PATH}").replace("b/after", f"b/{PATH}")


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edit=edits(), context=st.integers(0, 3))
def test_a_diff_by_git_makes_of_the_file_what_git_compared_it_with(
    edit: tuple[str, str], context: int, tmp_path: Path
) -> None:
    """Byte for byte, with any endings, with and without a final newline."""
    before, after = edit
    assume(before != after)
    patch = diff_by_git(tmp_path, before, after, context)
    # A diff without any CR over a CRLF file is read as one that knows nothing of endings.
    assume("\r" in patch or "\r" not in before)
    assert applied(patch, {PATH: before.encode()}) == {PATH: after.encode()}


def by_gnu_patch(folder: Path, before: str, diff: str) -> str | None:
    """Return what GNU patch makes of a text, or None where it refuses."""
    (folder / "file").write_bytes(before.encode())
    command = ["patch", "--binary", "--fuzz=0", "--silent", "--force", "-o", "new", "file"]
    done = subprocess.run(
        command, cwd=folder, input=diff.encode(), capture_output=True, check=False
    )
    return (folder / "new").read_bytes().decode() if done.returncode == 0 else None


@pytest.mark.skipif(shutil.which("patch") is None, reason="apt-get install patch")
@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edit=edits())
def test_gnu_patch_makes_the_same_of_a_diff(edit: tuple[str, str], tmp_path: Path) -> None:
    """Of every diff with three lines of context that it takes."""
    before, after = edit
    assume(before != after)
    diff = diff_by_git(tmp_path, before, after, 3)
    assume("\r" in diff or "\r" not in before)
    made = by_gnu_patch(tmp_path, before, diff)
    assume(made is not None)
    assert applied(diff, {PATH: before.encode()}) == {PATH: (made or "").encode()}


def envelope_of(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the chunk that turns one list of lines into another, all lines shown."""
    chunk = ["@@"]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        if before[i1:i2] == after[j1:j2]:
            chunk += [f" {line}" for line in before[i1:i2]]
        else:
            chunk += [f"-{line}" for line in before[i1:i2]]
            chunk += [f"+{line}" for line in after[j1:j2]]
    return chunk


@settings(deadline=None, max_examples=150)
@given(
    before=st.lists(texts, min_size=1, max_size=12),
    after=st.lists(texts, max_size=12),
    ending=endings,
)
def test_an_edit_in_the_envelope_makes_the_edited_file(
    before: list[str], after: list[str], ending: str
) -> None:
    """The file's own ending is kept, whatever the patch is written with."""
    assume(before != after)
    content = "".join(line + ending for line in before).encode()
    patch = update(*envelope_of(before, after))
    wanted = "".join(line + ending for line in after).encode()
    assert applied(patch, {PATH: content}, match=Match.STRICT) == {PATH: wanted}


@settings(deadline=None, max_examples=300)
@given(
    lines=st.lists(
        st.one_of(
            st.sampled_from(
                (
                    "*** Begin Patch",
                    "*** End Patch",
                    f"*** Update File: {PATH}",
                    f"*** Move to: {PATH}",
                    "*** Add File: output/n",
                    f"*** Delete File: {PATH}",
                    "*** End of File",
                    f"--- a/{PATH}",
                    f"+++ b/{PATH}",
                    "@@",
                    "@@ a",
                    "@@ -1,2 +3 @@",
                    "-a",
                    "+b",
                    " a",
                    "",
                    "```",
                    "<<EOF",
                    "EOF",
                )
            ),
            st.text(max_size=8),
        ),
        max_size=14,
    ),
    content=files(),
    match=st.sampled_from(Match),
)
def test_noise_is_refused_or_is_a_patch_and_never_breaks(
    lines: list[str], content: str, match: Match
) -> None:
    """Every input ends in a plan or in an error for the model."""
    files_before = {PATH: content.encode()}
    with contextlib.suppress(PatchError, ToolError, SystemFailure, NotText):
        assert planned("\n".join(lines), files_before, match=match).changes


@settings(deadline=None, max_examples=100)
@given(before=st.lists(texts, min_size=1, max_size=12), after=st.lists(texts, max_size=12))
def test_a_patch_that_was_applied_is_not_applied_again(before: list[str], after: list[str]) -> None:
    """With all lines shown, the second time finds nothing to change from."""
    lines = envelope_of(before, after)
    assume(before != after and any(line.startswith("-") for line in lines[1:]))
    # An empty last line may stand for the final newline, and is then left out.
    assume(before[-1])
    content = "".join(f"{line}\n" for line in before).encode()
    done = applied(update(*lines), {PATH: content}, match=Match.STRICT)
    with pytest.raises(PatchError):
        planned(update(*lines), done, match=Match.STRICT)
