"""How a patch may be written, and what is said of every mistake in it.

Is: both grammars and their wrappers; the cases of semantics 5.5.8 about spelling, by number. Is
not: what becomes of the bytes (`test_patch_content.py`).
Above: nothing. Below: `tests/patching.py`.
"""

import pytest

from tests.patching import applied, envelope, planned, refused, update
from toolrail_workers.builtin.patching.model import Format, OpKind
from toolrail_workers.builtin.patching.parsing import parse_patch
from toolrail_workers.builtin.patching.problems import PatchError

PATH = "output/a.txt"


def parse_error(patch: str) -> PatchError:
    """Return the error of a patch that cannot be read."""
    with pytest.raises(PatchError) as caught:
        parse_patch(patch)
    return caught.value


def test_case_36_a_lost_plus_of_an_empty_line_is_an_empty_line() -> None:
    """Between plus lines; before the next section it is padding."""
    patch = envelope("*** Add File: output/n.txt", "+a", "", "+b", "", "*** Delete File: output/x")
    assert applied(patch, {"output/x": b""}) == {"output/n.txt": b"a\n\nb\n"}


def test_case_37_other_text_in_an_added_file_is_refused_with_its_line() -> None:
    """Never dropped."""
    error = parse_error(envelope("*** Add File: output/n.txt", "+a", "b"))
    assert error.code == "patch.malformed"
    assert error.facts["patch_line"] == 4


def test_case_38_an_unknown_prefix_is_refused_with_its_line() -> None:
    """The error quotes the line."""
    error = parse_error(update("@@", " a", "b"))
    assert error.code == "patch.malformed"
    assert error.facts["patch_line"] == 5
    assert "'b'" in str(error)


def test_case_39_content_that_looks_like_a_diff_is_content() -> None:
    """The first character is the prefix and the rest is text."""
    before = b"++i;\n--x;\n---\n+++\n"
    after = applied(
        update("@@", "-++i;", "++++j;", " --x;", "----", "+===", " +++"), {PATH: before}
    )
    assert after == {PATH: b"+++j;\n--x;\n===\n+++\n"}


def test_case_41_context_that_reads_like_a_section_is_context() -> None:
    """Markers count in the first column only."""
    before = b"*** Update File: b\nx\n"
    after = applied(update("@@", " *** Update File: b", "-x", "+y"), {PATH: before})
    assert after == {PATH: b"*** Update File: b\ny\n"}


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<<EOF", "EOF"),
        ("apply_patch <<'PATCH-1'", "PATCH-1"),
        ('cat <<"_END."', "_END."),
        ("```", "```"),
        ("```diff", "```"),
        ("~~~~", "~~~~"),
        ("\n```\n<<EOF", "EOF\n```\n\n"),
    ],
)
def test_cases_42_and_43_a_heredoc_and_a_fence_are_taken_off(opening: str, closing: str) -> None:
    """And reported."""
    patch = f"{opening}\n{update('@@', '-a', '+b')}{closing}"
    assert applied(patch, {PATH: b"a\n"}) == {PATH: b"b\n"}
    assert parse_patch(patch).normalized


def test_case_44_a_patch_without_its_end_is_truncated_never_completed() -> None:
    """Also within a fence that was cut off."""
    whole = update("@@", "-a", "+b")
    cut = whole.replace("*** End Patch\n", "")
    assert parse_error(cut).code == "patch.truncated"
    assert parse_error("```\n" + cut).code == "patch.truncated"


@pytest.mark.parametrize("around", ["Here it is:\n{}", "{}Done."])
def test_case_45_text_around_the_envelope_is_refused(around: str) -> None:
    """It may be the other half of a patch that was cut."""
    assert parse_error(around.format(update("@@", "-a", "+b"))).code == "patch.malformed"


@pytest.mark.parametrize("patch", [envelope(), envelope("", ""), "", "\n \n"])
def test_case_46_a_patch_without_sections_is_empty(patch: str) -> None:
    """Never a success that did nothing."""
    assert parse_error(patch).code == "patch.empty"


def test_case_47_an_update_without_chunks_is_refused() -> None:
    """Unless the file is moved."""
    assert parse_error(update()).code == "patch.empty_update"
    assert parse_error(update("", "")).code == "patch.empty_update"
    moved = envelope(f"*** Update File: {PATH}", "*** Move to: output/b.txt")
    assert applied(moved, {PATH: b"\x00\xff"}) == {"output/b.txt": b"\x00\xff"}


def test_markers_may_have_blanks_behind_them() -> None:
    """Begin and End may also be indented."""
    patch = f"  *** Begin Patch \n*** Update File: {PATH}  \n@@ \n-a\n+b\n *** End Patch  \n"
    assert applied(patch, {PATH: b"a\n"}) == {PATH: b"b\n"}


def test_a_later_chunk_needs_its_header() -> None:
    """After a chunk that was closed by the end of the file."""
    error = parse_error(update("-a", "+b", "*** End of File", "-c"))
    assert error.code == "patch.malformed"


@pytest.mark.parametrize("line", ["*** Rename File: x", "*** Begin Patch", "*** Move to: y"])
def test_a_marker_nobody_knows_is_refused(line: str) -> None:
    """It would be content of the file otherwise."""
    assert parse_error(update("@@", "-a", "+b", line)).code == "patch.malformed"


def test_an_added_file_may_be_empty_and_may_end_without_newline() -> None:
    """No plus line at all; `\\ No newline` after the last."""
    patch = envelope(
        "*** Add File: output/e", "*** Add File: output/n", "+a", "\\ No newline at end of file"
    )
    assert applied(patch, {}) == {"output/e": b"", "output/n": b"a"}


def test_the_numbers_of_a_hunk_header_only_break_ties() -> None:
    """The nearest of equals is taken; a wrong number alone changes nothing."""
    before = b"x\ny\nx\ny\nx\n"
    assert applied(update("@@ -3,1 +3,1 @@", "-x", "+z"), {PATH: before}) == {
        PATH: b"x\ny\nz\ny\nx\n"
    }
    assert applied(update("@@ -900 +900 @@", "-a", "+b"), {PATH: b"a\n"}) == {PATH: b"b\n"}
    error = refused(update("@@ -2 +2 @@", "-x", "+z"), {PATH: before})
    assert error.code == "patch.ambiguous"


def test_a_patch_may_be_too_large_in_each_way() -> None:
    """Bytes, lines, sections, chunks."""
    assert parse_error("x" * (256 * 1024 + 1)).code == "patch.too_large"
    assert parse_error("\n" * 20_001).code == "patch.too_large"
    many = [f"*** Delete File: output/{number}" for number in range(51)]
    assert parse_error(envelope(*many)).code == "patch.too_large"
    assert parse_error(update(*["@@", "+a"] * 201)).code == "patch.too_large"


def test_case_64_a_file_of_more_than_50_000_lines_is_refused() -> None:
    """One line fewer is fine."""
    assert refused(update("@@", "-a", "+b"), {PATH: b"a\n" + b"x\n" * 50_000}).code == (
        "patch.too_large"
    )
    content = b"a\n" + b"x\n" * 49_999
    assert applied(update("@@", "-a", "+b"), {PATH: content})[PATH].startswith(b"b\nx\n")


GIT_MAIL = """From 0123 Mon Sep 17 00:00:00 2001
From: A <a@example.org>
Subject: [PATCH] change

---
 output/a.txt | 2 +-

diff --git a/output/a.txt b/output/a.txt
index 7898192..6178079 100644
--- a/output/a.txt
+++ b/output/a.txt
@@ -1,2 +1,2 @@ heading
 one
-two
+zwei
diff --git a/output/n.txt b/output/n.txt
new file mode 100644
index 0000000..587be6b
--- /dev/null
+++ b/output/n.txt
@@ -0,0 +1 @@
+x
diff --git a/output/e.txt b/output/e.txt
new file mode 100644
index 0000000..e69de29
diff --git a/output/old name.txt b/output/new name.txt
similarity index 60%
rename from output/old name.txt
rename to output/new name.txt
index 1..2 100644
--- a/output/old name.txt
+++ b/output/new name.txt
@@ -1 +1 @@
-a
+b
diff --git a/output/d.txt b/output/d.txt
deleted file mode 100644
index 1..0
--- a/output/d.txt
+++ /dev/null
@@ -1 +0,0 @@
-d
--\x20
2.39.0

"""


def test_a_diff_of_git_is_understood() -> None:
    """Prefixes, modes and similarity lines, an added, a changed, a renamed and a deleted file."""
    before = {"output/a.txt": b"one\ntwo\n", "output/old name.txt": b"a\n", "output/d.txt": b"d\n"}
    assert parse_patch(GIT_MAIL).format is Format.UNIFIED
    assert applied(GIT_MAIL, before) == {
        "output/a.txt": b"one\nzwei\n",
        "output/n.txt": b"x\n",
        "output/e.txt": b"",
        "output/new name.txt": b"b\n",
    }


def test_a_diff_of_a_crlf_file_applies_as_git_applies_it() -> None:
    """Headers end with LF, body lines with CRLF; a line without CR becomes an LF line."""
    patch = "--- a/output/a.txt\n+++ b/output/a.txt\n@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n"
    assert applied(patch, {PATH: b"a\r\nb\r\nc\r\n"}) == {PATH: b"a\r\nB\r\nc\r\n"}
    assert applied(patch.replace("+B\r", "+B"), {PATH: b"a\r\nb\r\nc\r\n"}) == {
        PATH: b"a\r\nB\nc\r\n"
    }


def test_an_insertion_without_context_goes_where_its_number_says() -> None:
    """After the line that is named."""
    patch = "--- a/output/a.txt\n+++ b/output/a.txt\n@@ -3,0 +4 @@\n+new\n"
    assert applied(patch, {PATH: b"1\n2\n3\n4\n"}) == {PATH: b"1\n2\n3\nnew\n4\n"}


@pytest.mark.parametrize(
    ("markers", "before", "after"),
    [
        (("-b", "\\ No newline at end of file", "+B"), b"a\nb", b"a\nB\n"),
        (("-b", "+B", "\\ Kein Zeilenumbruch am Dateiende."), b"a\nb\n", b"a\nB"),
        (("-b", "\\ No newline", "+B", "\\ No newline"), b"a\nb", b"a\nB"),
    ],
)
def test_each_side_of_a_diff_says_how_the_file_ends(
    markers: tuple[str, ...], before: bytes, after: bytes
) -> None:
    """In any language."""
    patch = "\n".join(("--- a/output/a.txt", "+++ b/output/a.txt", "@@ -1,2 +1,2 @@", " a"))
    assert applied("\n".join((patch, *markers)) + "\n", {PATH: before}) == {PATH: after}


@pytest.mark.parametrize(
    "line",
    [
        "new file mode 120000",
        "new file mode 160000",
        "GIT binary patch",
        "Binary files a/output/a.txt and b/output/a.txt differ",
        "copy from output/a.txt",
    ],
)
def test_links_submodules_and_binary_data_are_unsupported(line: str) -> None:
    """Said, and not done in part."""
    patch = f"diff --git a/output/a.txt b/output/a.txt\n{line}\n"
    assert parse_error(patch).code == "patch.unsupported"


def test_a_change_of_mode_alone_is_unsupported() -> None:
    """The workspace has no modes to change."""
    patch = "diff --git a/output/a.txt b/output/a.txt\nold mode 100644\nnew mode 100755\n"
    assert parse_error(patch).code == "patch.unsupported"


def test_hunks_that_go_backwards_are_out_of_order() -> None:
    """By their numbers, before any file is read."""
    patch = "--- a/output/a.txt\n+++ b/output/a.txt\n@@ -9 +9 @@\n-i\n+I\n@@ -1 +1 @@\n-a\n+A\n"
    assert parse_error(patch).code == "patch.out_of_order"


def test_a_diff_without_hunks_is_an_error() -> None:
    """Zero hunks never count as success."""
    assert parse_error("--- a/output/a.txt\n+++ b/output/a.txt\n").code == "patch.malformed"
    assert parse_error("@@ -1 +1 @@\n-a\n+b\n").code == "patch.malformed"


def test_removed_lines_that_look_like_headers_stay_lines() -> None:
    """`-- a` and `++ b` as content: the counts of the hunk decide."""
    patch = (
        "--- a/output/a.txt\n+++ b/output/a.txt\n"
        "@@ -1,2 +1,2 @@\n--- x\n+++ y\n z\n@@ -5 +5 @@\n-q\n+Q\n"
    )
    assert applied(patch, {PATH: b"-- x\nz\nm\nn\nq\n"}) == {PATH: b"++ y\nz\nm\nn\nQ\n"}


def test_quoted_names_are_decoded_before_the_path_rules() -> None:
    """Git writes names that are not ASCII in octal."""
    patch = (
        '--- "a/output/\\344\\275\\240.txt"\n+++ "b/output/\\344\\275\\240.txt"\n'
        "@@ -1 +1 @@\n-a\n+b\n"
    )
    assert applied(patch, {"output/你.txt": b"a\n"}) == {"output/你.txt": b"b\n"}


def test_a_deletion_with_hunks_needs_the_whole_file_to_go() -> None:
    """What the diff does not know of is not deleted."""
    patch = "--- a/output/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    assert applied(patch, {PATH: b"a\n"}) == {}
    assert refused(patch, {PATH: b"a\nb\n"}).code == "patch.context_mismatch"


def test_two_names_without_a_rename_are_refused() -> None:
    """Which one is meant is not guessed."""
    patch = "--- a/output/a.txt\n+++ b/output/b.txt\n@@ -1 +1 @@\n-a\n+b\n"
    assert parse_error(patch).code == "patch.malformed"


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        (envelope("*** Add File: output/a.txt", "+x"), "patch.target_exists"),
        (
            envelope(f"*** Update File: {PATH}", "*** Move to: output/b.txt"),
            "patch.target_exists",
        ),
        (envelope(f"*** Update File: {PATH}", "*** Move to: output/./a.txt"), "patch.no_change"),
        (envelope("*** Delete File: output/c.txt"), "patch.file_not_found"),
        (update("@@", "+x", path="output/c.txt"), "patch.file_not_found"),
        (
            envelope(f"*** Delete File: {PATH}", f"*** Update File: {PATH}", "@@", "-a", "+b"),
            "patch.file_not_found",
        ),
    ],
)
def test_cases_1_2_3_4_and_50_sections_that_cannot_be(patch: str, code: str) -> None:
    """Nothing is written over, and nothing that is gone is changed."""
    assert refused(patch, {PATH: b"a\n", "output/b.txt": b"b\n"}).code == code


def test_case_49_a_file_may_be_deleted_and_added_anew() -> None:
    """One change in the end."""
    patch = envelope(f"*** Delete File: {PATH}", f"*** Add File: {PATH}", "+new")
    assert applied(patch, {PATH: b"a\n"}) == {PATH: b"new\n"}
    assert [report.op for report in planned(patch, {PATH: b"a\n"}).files] == ["delete", "add"]


def test_a_moved_file_may_be_changed_under_its_new_name() -> None:
    """And on its way."""
    patch = envelope(
        f"*** Update File: {PATH}",
        "*** Move to: output/b.txt",
        "@@",
        "-a",
        "+b",
        "*** Update File: output/b.txt",
        "@@",
        "-b",
        "+c",
    )
    assert applied(patch, {PATH: b"a\n"}) == {"output/b.txt": b"c\n"}


def test_a_missing_file_is_told_with_its_nearest_names() -> None:
    """A diff prefix in an envelope is pointed out."""
    assert "'output/a.txt'" in str(
        refused(update("@@", "-a", "+b", path="output/a.text"), {PATH: b"a\n"}).next_action
    )
    advice = refused(update("@@", "-a", "+b", path="a/output/a.txt"), {PATH: b"a\n"}).next_action
    assert "Leave the a/" in str(advice)


def test_the_kinds_of_sections_are_told_apart() -> None:
    """Delete and move make a call destructive, so the parser must not mistake them."""
    patch = envelope("*** Add File: output/n", "+x", "*** Delete File: output/d")
    assert [op.kind for op in parse_patch(patch).ops] == [OpKind.ADD, OpKind.DELETE]
