"""What a patch makes of the bytes of a file: endings, marks, blanks, lookalikes.

Is: the cases of semantics 5.5.8 that need no disk, by number, and their neighbours. Is not: the
grammar (`test_patch_grammar.py`) or files (`test_apply_patch.py`).
Above: nothing. Below: `tests/patching.py`.
"""

import pytest

from tests.patching import applied, planned, refusal, refused, update, updated
from toolrail_workers.builtin.patching.overlay import NotText
from toolrail_workers.builtin.patching.tiers import Match, Tier

PATH = "output/a.txt"


def test_case_7_a_crlf_file_stays_crlf_under_an_lf_patch() -> None:
    """Added lines end as those they replace; what the patch writes for context is not used."""
    assert updated(b"a\r\nb\r\nc\r\n", "@@", " a", "-b", "+B", "+B2", " c") == (
        b"a\r\nB\r\nB2\r\nc\r\n"
    )


def test_case_8_an_lf_file_stays_lf_under_a_crlf_patch() -> None:
    """The CR at the end of every line belongs to the patch's transport."""
    patch = update("@@", " a", "-b", "+B").replace("\n", "\r\n")
    assert applied(patch, {PATH: b"a\nb\n"}) == {PATH: b"a\nB\n"}
    assert planned(patch, {PATH: b"a\nb\n"}).files[0].chunks[0].matched_with is Tier.EXACT


def test_case_9_mixed_endings_change_only_where_touched() -> None:
    """An added line ends as the removed one it replaces, else as the line above it."""
    before = b"a\r\nb\nc\r\nd\n"
    assert updated(before, "@@", "-b", "+B", " c", "+c2") == b"a\r\nB\nc\r\nc2\r\nd\n"


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        (b"a\nb", ("@@", " a", "-b", "+B"), b"a\nB"),
        (b"a\nb", ("@@", "-a", "+A"), b"A\nb"),
        (b"a\nb", ("@@", " b", "+c"), b"a\nb\nc\n"),
        (b"a\nb", ("@@", " a", "-b"), b"a"),
        (b"a\r\nb", ("@@", " b", "+c"), b"a\r\nb\r\nc\r\n"),
        (b"a\nb\n", ("@@", " b", "+c"), b"a\nb\nc\n"),
    ],
)
def test_case_10_the_final_newline_is_kept_or_missing_as_before(
    before: bytes, lines: tuple[str, ...], after: bytes
) -> None:
    """Unless lines are added below the last, which are lines of their own."""
    assert updated(before, *lines) == after


def test_case_11_nofinal_takes_the_last_newline_away() -> None:
    """`\\ No newline` binds the chunk to the end of the file."""
    marker = "\\ No newline at end of file"
    assert updated(b"a\nb\n", "@@", "-b", "+B", marker) == b"a\nB"
    assert refusal(b"b\nc\n", "@@", "-b", "+B", marker).code == "patch.context_mismatch"


def test_case_12_blank_lines_at_the_end_are_not_touched() -> None:
    """They are content like any other."""
    assert updated(b"a\nb\n\n\n", "@@", "-a", "+A") == b"A\nb\n\n\n"


def test_case_13_a_byte_order_mark_is_matched_through_and_kept() -> None:
    """Also when all lines of the file go."""
    mark = b"\xef\xbb\xbf"
    assert updated(mark + b"a\nb\n", "@@", "-a", "+A") == mark + b"A\nb\n"
    assert updated(mark + b"a\n", "@@", "-a") == mark
    assert updated(mark, "@@", "+a") == mark + b"a\n"


@pytest.mark.parametrize(
    "content", ["中文\n".encode("gbk"), "café\n".encode("latin-1"), "a\n".encode("utf-16")]
)
def test_cases_14_and_15_other_encodings_are_refused(content: bytes) -> None:
    """What is not UTF-8 is never decoded by guess."""
    with pytest.raises(NotText):
        planned(update("@@", "-a", "+b"), {PATH: content})


@pytest.mark.parametrize("odd", ["\x0c", "\x0b", "\x85", "\u2028", "\u2029", "\r"])
def test_cases_16_and_17_only_lf_ends_a_line(odd: str) -> None:
    """Form feed, NEL, U+2028 and a lone CR stay where they are, in kept and in added lines."""
    before = f"a{odd}b\nc\n".encode()
    assert updated(before, "@@", f" a{odd}b", "-c", f"+d{odd}e") == f"a{odd}b\nd{odd}e\n".encode()


def test_case_18_an_anchored_addition_goes_below_its_anchor() -> None:
    """Not to the end of the file."""
    assert updated(b"def f():\n    pass\n", "@@ def f():", "+    x = 1") == (
        b"def f():\n    x = 1\n    pass\n"
    )


def test_case_19_an_addition_without_anchor_goes_to_the_end() -> None:
    """With and without a header."""
    assert updated(b"a\n", "@@", "+b") == updated(b"a\n", "+b") == b"a\nb\n"


def test_case_20_nested_anchors_lead_inwards() -> None:
    """Each is found below the one before."""
    before = b"class A:\n  def f():\n    x\nclass B:\n  def f():\n    x\n"
    after = updated(before, "@@ class B:", "@@   def f():", "-    x", "+    y")
    assert after == b"class A:\n  def f():\n    x\nclass B:\n  def f():\n    y\n"


def test_case_21_a_repeated_anchor_steps_through_the_file() -> None:
    """A A A: every chunk takes the next."""
    before = b"A\nx\nA\nx\nA\nx\n"
    after = updated(before, "@@ A", "-x", "+1", "@@ A", "-x", "+2", "@@ A", "-x", "+3")
    assert after == b"A\n1\nA\n2\nA\n3\n"


def test_case_22_an_ambiguous_block_is_refused_with_its_places() -> None:
    """A first lookalike is never taken."""
    error = refusal(b"x\ny\nx\ny\n", "@@", "-x", "+z")
    assert error.code == "patch.ambiguous"
    assert error.facts["candidates"] == [1, 3]


def test_case_23_an_anchor_decides_between_equals() -> None:
    """The first block below it is taken."""
    assert updated(b"x\nhere\nx\nx\n", "@@ here", "-x", "+z") == b"x\nhere\nz\nx\n"


def test_case_24_the_end_of_the_file_decides_between_equals() -> None:
    """`*** End of File` takes the block that ends at the last line."""
    assert updated(b"x\ny\nx\n", "@@", "-x", "+z", "*** End of File") == b"x\ny\nz\n"


def test_case_25_a_block_pinned_to_the_end_never_matches_elsewhere() -> None:
    """The pin is a constraint and no wish."""
    error = refusal(b"x\ny\n", "@@", "-x", "+z", "*** End of File")
    assert error.code == "patch.context_mismatch"
    assert error.facts["candidates"] == [1]


def test_case_26_other_indentation_needs_the_lenient_match() -> None:
    """Then added lines take the file's indentation."""
    before = b"\tif a:\n\t\tb\n"
    lines = ("@@", "     if a:", "-        b", "+        c", "+            d")
    assert refusal(before, *lines).code == "patch.context_mismatch"
    assert updated(before, *lines, match=Match.LENIENT) == b"\tif a:\n\t\tc\n\t\t\td\n"


def test_an_uneven_indentation_is_refused_leniently_too() -> None:
    """One difference for all lines, or none."""
    before = b"  a\n      b\n"
    error = refusal(before, "@@", "     a", "-     b", "+     c", match=Match.LENIENT)
    assert error.code == "patch.context_mismatch"


def test_case_27_drifted_blanks_at_line_ends_keep_the_files_bytes() -> None:
    """Context is the file's, whatever the patch writes for it."""
    assert updated(b"a  \nb\t\nc\n", "@@", " a", "-b", "+B", " c ") == b"a  \nB\nc\n"
    assert refusal(b"a  \nb\n", "@@", " a", "-b", "+B", match=Match.STRICT).code == (
        "patch.context_mismatch"
    )


def test_case_28_typographic_lookalikes_match_and_stay() -> None:
    """Curly quotes, dashes and odd spaces of the file are kept in context."""
    before = "say \u201chi\u201d \u2013 it\u2019s\u00a0ok\nx\n".encode()
    assert updated(before, "@@", ' say "hi" - it\'s ok', "-x", "+y") == before.replace(b"x", b"y")


def test_case_29_full_width_punctuation_is_not_a_lookalike() -> None:
    """The comma of Chinese text and the ASCII comma are two characters."""
    error = refusal("你好\uff0c世界\n".encode(), "@@", "-你好,世界", "+再见")
    assert error.code == "patch.context_mismatch"


def test_case_30_chunks_out_of_order_are_refused() -> None:
    """The error names the line where the chunk would fit."""
    error = refusal(b"a\nb\nc\n", "@@", "-c", "+C", "@@", "-a", "+A")
    assert error.code == "patch.out_of_order"
    assert error.facts["candidates"] == [1]


def test_case_31_overlapping_chunks_are_refused() -> None:
    """The second would change what the first has changed."""
    error = refusal(b"a\nb\nc\n", "@@", " a", "-b", "+B", "@@", "-b", "+C", " c")
    assert error.code == "patch.out_of_order"


def test_case_32_two_additions_at_one_place_keep_their_order() -> None:
    """As in the patch."""
    assert updated(b"a\n", "@@", "+b", "@@", "+c") == b"a\nb\nc\n"


def test_case_33_a_block_longer_than_the_file_is_a_mismatch() -> None:
    """The error says that the file has ended."""
    error = refusal(b"a\n", "@@", " a", " b", "-c", "+d")
    assert error.code == "patch.context_mismatch"
    assert error.facts["found"] is None
    assert error.facts["expected"] == "b"


def test_case_34_lines_are_added_to_an_empty_file() -> None:
    """And end with a newline."""
    assert updated(b"", "@@", "+a") == b"a\n"


def test_case_35_a_file_without_lines_is_empty_not_gone() -> None:
    """Deleting is another section."""
    assert updated(b"a\nb\n", "@@", "-a", "-b") == b""


def test_case_40_a_doubled_prefix_is_named() -> None:
    """The commonest slip of models gets its own advice."""
    removed = refusal(b"a\nb\n", "@@", " a", "--b", "+c")
    assert "prefix twice" in str(removed)
    assert removed.code == "patch.context_mismatch"


def test_case_65_a_patch_that_is_in_place_says_so() -> None:
    """A repeated patch is told from a wrong one."""
    error = refusal(b"a\nB\nc\n", "@@", " a", "-b", "+B", " c")
    assert error.code == "patch.already_applied"
    assert error.facts["candidates"] == [2] or error.facts["candidates"] == [1]


def test_lines_that_are_not_there_to_remove_are_a_mismatch() -> None:
    """Never `already_applied`: nothing would prove it."""
    assert refusal(b"a\nc\n", "@@", " a", "-b", " c").code == "patch.context_mismatch"


def test_case_66_a_patch_that_changes_nothing_is_told() -> None:
    """So that a model does not believe it did something."""
    assert refusal(b"a\n", "@@", "-a", "+a").code == "patch.no_change"


def test_an_anchor_that_is_the_chunks_first_line_is_refused() -> None:
    """The anchor is a line above the chunk."""
    error = refusal(b"def f():\n  x\n", "@@ def f():", " def f():", "-  x", "+  y")
    assert error.code == "patch.out_of_order"


def test_an_anchor_that_is_nowhere_is_named() -> None:
    """With what was looked for."""
    error = refusal(b"a\n", "@@ def g():", "-a", "+b")
    assert error.code == "patch.anchor_not_found"
    assert error.facts["expected"] == "def g():"


def test_a_mismatch_shows_the_first_line_that_differs() -> None:
    """With line numbers of file and patch, an excerpt, and the range to read."""
    content = "".join(f"line {number}\n" for number in range(1, 101)).encode()
    error = refusal(content, "@@", " line 50", " line 51", "-line 5x", "+new")
    assert error.facts["expected"] == "line 5x"
    assert error.facts["found"] == "line 52"
    assert error.facts["at_line"] == 52
    assert error.facts["patch_line"] == 6
    assert len(error.facts["excerpt"]) == 20  # type: ignore[arg-type]
    assert "start_line" in str(error.next_action)
    assert error.facts["op"] == 1
    assert error.facts["path"] == PATH
    assert len(str(error.facts["current_sha256"])) == 64


def test_an_excerpt_is_cut_by_characters_and_shows_no_control_character() -> None:
    """Chinese text is never cut inside a character; an escape sequence cannot act."""
    error = refusal(("\x1b[31m" + "字" * 500 + "\n").encode(), "@@", "-x", "+y")
    found = str(error.facts["found"])
    assert found.startswith("\\x1b[31m字")
    assert found.endswith("…")
    assert len(found) < 220


def test_an_empty_line_at_the_end_may_stand_for_the_final_newline() -> None:
    """Models write it; it is left out when nothing matches with it."""
    assert updated(b"a\nb\n", "@@", " a", "-b", "+B", " ") == b"a\nB\n"
    assert updated(b"a\nb\n", "@@", " a", "-b", "+B", "", "") == b"a\nB\n"


def test_case_48_sections_of_one_path_build_on_one_another() -> None:
    """In the order of the patch, as one change."""
    patch = (
        update("@@", "-a", "+b").replace("*** End Patch\n", "")
        + "*** Update File: output/a.txt\n@@\n-b\n+c\n*** End Patch\n"
    )
    assert applied(patch, {PATH: b"a\n"}) == {PATH: b"c\n"}


def test_case_51_a_second_section_that_fails_leaves_nothing_done() -> None:
    """The error names the section."""
    patch = (
        update("@@", "-a", "+b").replace("*** End Patch\n", "")
        + "*** Update File: output/b.txt\n@@\n-x\n+y\n*** End Patch\n"
    )
    error = refused(patch, {PATH: b"a\n", "output/b.txt": b"a\n"})
    assert error.facts["op"] == 2
