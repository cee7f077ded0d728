"""What a person sees of a question, also when strangers write it to mislead them.

Is: the list, the page and the lines of `watch`, from records. Is not: reading or deciding
(`tests/integration/test_approvals_cli.py`). Above: nothing. Below: `toolrail.cli.approvals_page`.
"""

import json
import re
import unicodedata

import pytest
from rich.cells import cell_len

from tests.approval_records import ASKED_MS, EXPIRES_MS, KEY, NOW_MS, foreign, question
from tests.promises import promise
from toolrail.cli.approvals_page import Shown, list_lines, page_lines, record_data
from toolrail.cli.approvals_watch import event_lines
from toolrail.cli.approvals_words import effect_words, source_words, state_words
from toolrail.cli.plain import ascii_json
from toolrail_schemas import (
    Annotations,
    ApprovalRecord,
    ApprovalScope,
    ApprovalState,
    Cost,
    Rollback,
    SideEffect,
)

WIDTH = 80
STYLE = re.compile(r"\x1b\[[0-9;]*m")
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
HOSTILE = (
    "\x9b2J\x9d0;owned\x9c",  # C1 forms of ANSI
    "\u202esdrawkcab\u202c\u2066x\u2069",  # right-to-left override and isolates
    "[red]bold[/red] [link=http://x]y[/link]",  # rich markup
    "a\u2028b\u2029c\u0085d",  # what Unicode calls line ends
    "\U000e0041\U000e0042\u200b\ufeff\u00ad",  # tags, zero width, soft hyphen
    "x" + " " * 200 + "state       approved, by ana",  # padded to begin a line of its own
    "日本語" * 60,  # twice as wide as it is long
)
LINES = ("\x1b[2J\x1b]0;owned\x07", "a\nstate       approved\r\x08\x08b\tc\x7f")
"""Not lawful in every field."""


def unstyled(lines: list[str]) -> list[str]:
    """Return the lines without our own colours."""
    return [STYLE.sub("", line) for line in lines]


def page(record: ApprovalRecord, *, shown: Shown | None = None, width: int = WIDTH) -> list[str]:
    """Return the page of a question."""
    return unstyled(list(page_lines(record, now_ms=NOW_MS, width=width, shown=shown)))


def listed(record: ApprovalRecord, *, width: int = WIDTH) -> list[str]:
    """Return the question's lines in the list."""
    lines = list_lines(record, KEY[:8], id_width=8, now_ms=NOW_MS, width=width)
    return unstyled(list(lines))


def is_harmless(lines: list[str]) -> bool:
    """Return whether no line holds a character that acts, hides or turns text around."""
    return not any(unicodedata.category(char) in UNSEEN for line in lines for char in line)


def hostile(text: str, *, whole: bool) -> ApprovalRecord:
    """Return a question with this text wherever a stranger writes."""
    fields = {"title": text[:200], "call_id": text[:200], "name": f"mcp.x.{text[:100]}"}
    lawful = fields if whole else {}
    return foreign(description=text, args_summary=text, policy_reason=text, **lawful)


@promise("approval.shown-as-plain-text")
@pytest.mark.parametrize(
    ("text", "whole"),
    [*((text, True) for text in HOSTILE), *((text, False) for text in LINES)],
    ids=range(len(HOSTILE) + len(LINES)),
)
def test_strangers_cannot_act_on_the_terminal(text: str, whole: bool) -> None:
    """Control, format and bidi characters come out as escapes, markup as it was written."""
    record = hostile(text, whole=whole)
    shown = Shown(arguments={"k": text, text: [text]}, note="whole")
    seen = [*page(record), *page(record, shown=shown), *listed(record)]

    assert is_harmless(seen)
    if "[red]" in text:
        assert any("[red]bold[/red] [link=http://x]y[/link]" in line for line in seen)


@promise("approval.shown-as-plain-text")
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_strangers_cannot_begin_a_line_of_their_own(text: str, width: int) -> None:
    """No terminal has to break one of their lines: each is behind the bar and within the width."""
    record = foreign(description=text, args_summary=text)
    shown = Shown(arguments={"k": text}, note="whole")
    lines = [*page(record, width=width), *page(record, shown=shown, width=width)]
    theirs = [line for line in lines if line.startswith("  │ ")]

    assert max(map(cell_len, theirs)) <= width
    states = [line for line in lines if line.lstrip().startswith("state ")]
    assert states == [line for line in lines if line.startswith("  state       pending")]


@promise("approval.shown-as-plain-text")
@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_padded_title_is_no_row_of_its_own(width: int) -> None:
    """Longer than the line, it stands behind a bar, in the list, on the page and in the watch."""
    row = "deadbeef  9 m 58 s    x.read"
    for pad in range(80 - len(row)):
        record = foreign(title=f'Mail"{" " * pad}{row}', name="mcp.x.mail")
        lines = [*listed(record, width=width), *page(record, width=width)]
        lines += unstyled(list(event_lines(record, KEY[:8], now_ms=NOW_MS, width=width)))
        theirs = [line for line in lines if "deadbeef" in line]

        assert theirs
        assert all(cell_len(line) <= width for line in theirs)
        assert not [line for line in theirs if line.startswith("deadbeef")]


def test_a_title_cannot_close_its_quotes() -> None:
    """What stands behind it on the line is ours."""
    record = foreign(title='Read" · builtin, trusted')

    assert listed(record)[0].endswith('mcp.mail.send  "Read\\" · builtin, trusted"')


def test_a_name_that_could_pass_for_more_is_quoted() -> None:
    """The tool's part of a name is the server's own."""
    assert page(foreign(name="mcp.mail.a  trusted"))[0] == '"mcp.mail.a  trusted"  "Send"'


def test_the_list_has_everything_a_person_must_see() -> None:
    """Semantics 6: name, title, arguments, side effects, rollback, source, trust, reason, time."""
    assert listed(foreign(args_summary='to: "ana"\nsubject: "Hi"')) == [
        '01234567  9 m 55 s    mcp.mail.send  "Send"',
        "          external · destructive · NO ROLLBACK · MCP server mail, untrusted",
        "          Approval is required by platform, rule mail.",
        '          to: "ana"  subject: "Hi"',
    ]


def test_only_the_arguments_of_the_list_are_cut() -> None:
    """On a narrow terminal facts of ours go to a second line."""
    lines = listed(foreign(args_summary=f'text: "{"é" * 100}"'), width=48)

    assert lines[1:3] == [
        "          external · destructive · NO ROLLBACK",
        "            MCP server mail, untrusted",
    ]
    assert (cell_len(lines[-1]), lines[-1][-1]) == (48, "…")


@pytest.mark.parametrize(
    ("hints", "words"),
    [
        (Annotations.for_builtin(read_only=True), ["read-only"]),
        (
            Annotations.for_builtin(read_only=True, open_world=True),
            ["read-only", "talks to the outside"],
        ),
        (
            Annotations.for_builtin(rollback=Rollback.CHECKPOINT),
            ["changes workspace", "rollback by checkpoint"],
        ),
        (
            Annotations.for_builtin(destructive=True, rollback=Rollback.NONE, cost=Cost.HIGH),
            ["changes workspace", "destructive", "high cost", "NO ROLLBACK"],
        ),
        (Annotations.for_builtin(side_effect=SideEffect.CONTROL), ["controls the run"]),
        (Annotations.worst_case(), ["external", "destructive", "NO ROLLBACK"]),
    ],
)
def test_side_effects_are_words(hints: Annotations, words: list[str]) -> None:
    """What cannot be taken back is said loudest."""
    record = question(annotations=hints, rollback=hints.rollback)

    assert unstyled(effect_words(record)) == words


def test_what_arguments_add_to_the_danger_is_said() -> None:
    """A patch that deletes is destructive though the tool is not."""
    hints = Annotations.for_builtin(rollback=Rollback.CHECKPOINT)
    record = question(annotations=hints, rollback=hints.rollback, effects=("destructive",))

    assert "destructive with these arguments" in unstyled(effect_words(record))


def test_the_source_says_whom_to_trust() -> None:
    """Which server or extension, and whether the operator vouches for it."""
    version = {"extension": "dice", "version": "1.0"}
    extension = foreign(source="extension", source_ref=version, name="ext.dice.roll")

    assert unstyled([source_words(question())]) == ["builtin, trusted"]
    assert unstyled([source_words(foreign())]) == ["MCP server mail, untrusted"]
    assert unstyled([source_words(extension)]) == ["extension dice 1.0, untrusted"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "9 m 55 s left"),
        ({"expires_at": NOW_MS}, "over"),
        (
            {
                "state": ApprovalState.APPROVED,
                "decided_by": "ana",
                "decided_at": ASKED_MS + 2_000,
                "scope": ApprovalScope.RUN,
                "edited_args_sha256": "d" * 64,
            },
            "by ana, 3 s ago, for the rest of the run, with edited arguments",
        ),
        (
            {"state": "denied", "decided_by": "bob", "decided_at": NOW_MS, "comment": "No."},
            "by bob, 0 s ago",
        ),
        ({"state": "expired"}, "nobody decided in time, which is a refusal"),
        ({"state": "superseded"}, "the tool or the policy changed after it was asked"),
        (
            {"state": "cancelled"},
            "the call ended before anybody's decision could bring it to run",
        ),
    ],
)
def test_every_state_is_told_with_who_and_when(changes: dict[str, object], words: str) -> None:
    """By the clock of Redis, which is what `now_ms` is."""
    assert state_words(question(**changes), now_ms=NOW_MS) == words


def test_the_page_of_a_decided_question_has_digest_and_reason() -> None:
    """What was bound, what was edited, what the model was told."""
    decided = {"decided_by": "ana", "decided_at": NOW_MS}
    approved = {"state": "approved", "scope": "once", "edited_args_sha256": "d" * 64}
    denied = {"state": "denied", "comment": "Not to\nthem."}

    assert f"  sha256      {'d' * 64} of the edited" in page(
        question(**decided, **approved), width=100
    )
    assert "  │ Not to\\u000athem." in page(question(**decided, **denied))


def test_secrets_are_in_no_view() -> None:
    """Neither in what a person reads nor in what a program does; ids and digests stay whole."""
    token = "ghp_" + "a1B2" * 9
    record = foreign(title=token, description=f"Use {token}.", policy_reason=f"because {token}")
    shown = record_data(record, now_ms=NOW_MS)
    seen = "\n".join([*page(record), *listed(record), ascii_json(shown)])

    assert token not in seen
    assert seen.count("«redacted»") == 5
    assert shown["args_sha256"] == record.args_sha256
    assert shown["left_ms"] == EXPIRES_MS - NOW_MS


def test_json_for_a_program_is_one_line_of_ascii() -> None:
    """Safe to print, and what was said can be read out of it again."""
    record = foreign(title="\u202eevil", description="a\nb\x1b[2J")
    text = ascii_json(record_data(record, now_ms=NOW_MS))

    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text)["description"] == "a\nb\x1b[2J"
