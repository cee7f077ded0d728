"""The diff of a change, as git reads it.

Is: `make_diff` against `git apply`, on random texts, moves, odd names and large files. Is not: how
it is stored (`test_workspace_write.py`).
Above: nothing. Below: `toolrail_workers.builtin.diffs`, git.
"""

import subprocess
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolrail_workers.builtin.diffs import Difference, make_diff
from toolrail_workers.builtin.matching import matching_blocks
from toolrail_workers.builtin.texts import split_lines

LINES = st.sampled_from(("a\n", "b\n", "c\r\n", "\n", "++ x\n", "-- x\n", "中\n", "\ufeffd\n"))


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Return a text of a few lines, with or without a final newline."""
    return "".join(draw(st.lists(LINES, max_size=14))) + draw(st.sampled_from(("", "e")))


def git_apply(folder: Path, text: str) -> None:
    """Apply a diff to a folder, or fail with what git said."""
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        cwd=folder,
        input=text.encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (done.stderr.decode(), text)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(before=texts(), after=texts())
def test_git_makes_of_the_old_file_the_new_one(before: str, after: str, tmp_path: Path) -> None:
    """Whatever the endings are, and whether the last line has one."""
    place = tmp_path / "a.txt"
    place.write_bytes(before.encode())
    diff = make_diff([Difference(path="a.txt", before=before.encode(), after=after.encode())])
    assert diff is not None
    if before != after:
        git_apply(tmp_path, diff.text)
        assert place.read_bytes() == after.encode()
        assert diff.added - diff.removed == len(split_lines(after)) - len(split_lines(before))


def test_git_understands_additions_deletions_moves_and_odd_names(tmp_path: Path) -> None:
    """Of one diff with all of them."""
    (tmp_path / 'old "name".txt').write_bytes(b"one\ntwo\n")
    (tmp_path / "with space.txt").write_bytes(b"x\n")
    (tmp_path / "gone.txt").write_bytes(b"gone")
    diff = make_diff(
        [
            Difference(
                path="dir/中文.txt",
                old_path='old "name".txt',
                before=b"one\ntwo\n",
                after=b"one\n2\n",
            ),
            Difference(path="with space.txt", before=b"x\n", after=b"y"),
            Difference(path="gone.txt", before=b"gone", after=None),
            Difference(path="new.txt", before=None, after=b"new\n"),
            Difference(path="empty.txt", before=None, after=b""),
        ]
    )
    assert diff is not None
    git_apply(tmp_path, diff.text)
    found = {
        str(place.relative_to(tmp_path)): place.read_bytes()
        for place in tmp_path.rglob("*")
        if place.is_file()
    }
    assert found == {
        "dir/中文.txt": b"one\n2\n",
        "with space.txt": b"y",
        "new.txt": b"new\n",
        "empty.txt": b"",
    }
    assert (diff.added, diff.removed) == (3, 3)


def test_a_diff_of_a_large_file_is_as_small_as_its_changes() -> None:
    """Two changes far apart in 50 000 lines are two hunks of a few lines."""
    old = [f"line {number}\n" for number in range(50_000)]
    new = [*old[:10], "added\n", *old[10:40_000], *old[40_001:]]
    diff = make_diff(
        [Difference(path="a", before="".join(old).encode(), after="".join(new).encode())]
    )
    assert diff is not None
    assert (diff.added, diff.removed) == (1, 1)
    assert diff.text.count("\n@@ ") == 2


def test_the_blocks_of_two_texts_are_equal_and_in_order() -> None:
    """Also where nothing near a difference is unique, and one side repeats itself."""
    old = ["x"] * 3000 + ["a"] + ["x"] * 10
    new = ["x"] * 2990 + ["b"] + ["x"] * 30
    at = to = 0
    for block in matching_blocks(old, new):
        assert block.old >= at
        assert block.new >= to
        at, to = block.old + block.size, block.new + block.size
        assert old[block.old : at] == new[block.new : to]
