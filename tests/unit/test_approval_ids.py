"""Short ids of questions: unique, stable enough to paste, and found again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrail.cli.approvals_ids import SHORT_CHARS, Finder, ShortIds, key_of
from toolrail.errors import ApprovalNotFound

RUN = "run_01J0000000000000000000000"
KEYS = st.text("0123456789abcdef", min_size=16, max_size=16)
ALIKE = KEYS.map(lambda key: "0123456789" + key[:6])


def id_of(key: str, run: str = "1") -> str:
    """Return an approval id."""
    return f"{RUN}{run}.{key}"


@dataclass
class Lists:
    """What the search reads, and how often."""

    waiting: Sequence[str] = ()
    decided: Sequence[str] = ()
    reads: list[str] = field(default_factory=list[str])

    def ids(self) -> list[str]:
        self.reads.append("ids")
        return list(self.waiting)

    def lately(self) -> list[str]:
        self.reads.append("lately")
        return [*self.waiting, *self.decided]


@given(st.sets(KEYS | ALIKE, min_size=1, max_size=40))
def test_a_short_id_means_one_question_among_those_that_wait(keys: set[str]) -> None:
    """At least 8 characters, as many more as it takes, and the search finds it again."""
    ids = [id_of(key) for key in keys]
    short, finder = ShortIds(ids), Finder(Lists(ids))
    for approval_id in ids:
        text = short.of(approval_id)

        assert len(text) >= SHORT_CHARS
        assert [k for k in keys if k.startswith(text)] == [key_of(approval_id)]
        assert finder.find(text) == approval_id


@given(st.sets(KEYS | ALIKE, max_size=20), KEYS | ALIKE)
def test_the_short_id_of_a_decided_question_is_none_that_waits(keys: set[str], key: str) -> None:
    """It is shown once more after the decision, and must not point at another question."""
    text = ShortIds(id_of(other) for other in keys - {key}).of(id_of(key))

    assert not any(other.startswith(text) for other in keys - {key})


def test_one_key_in_two_runs_needs_the_whole_id() -> None:
    """Nothing shorter tells them apart."""
    ids = [id_of("a" * 16, "1"), id_of("a" * 16, "2")]

    assert ShortIds(ids).of(ids[0]) == ids[0]


@pytest.mark.parametrize("text", ["0123456789abcdef", " 01234567\n", "0123", f"{RUN}1.01", RUN])
def test_any_unique_beginning_is_enough(text: str) -> None:
    """Of the call key or of the whole id; spaces of a careless paste do not matter."""
    waiting = [id_of("0123456789abcdef"), f"run_{'9' * 26}.fedcba9876543210"]

    assert Finder(Lists(waiting)).find(text) == waiting[0]


def test_a_whole_id_is_looked_up_nowhere() -> None:
    """Whatever became of the question, its record says it."""
    lists = Lists()

    assert Finder(lists).find(id_of("a" * 16)) == id_of("a" * 16)
    assert lists.reads == []


def test_a_question_is_found_after_it_was_decided() -> None:
    """Who decided a second ago pastes the same id again."""
    lists = Lists(waiting=[id_of("b" * 16)], decided=[id_of("a" * 16)])

    assert Finder(lists).find("aaaaaaaa") == id_of("a" * 16)


def test_few_characters_that_meant_a_decided_question_do_not_take_the_next() -> None:
    """Typing four characters again after the decision must not approve another call."""
    lists = Lists(waiting=[id_of("aaaab" + "0" * 11)], decided=[id_of("aaaac" + "0" * 11)])

    with pytest.raises(ApprovalNotFound, match=r"'aaaa' could be aaaab0+ or aaaac0+\. Give more"):
        Finder(lists).find("aaaa")


def test_an_ambiguous_beginning_names_what_it_could_be() -> None:
    """Up to five, and how many more there are."""
    waiting = [id_of(f"abcd{n}" + "0" * 11) for n in range(8)]

    with pytest.raises(ApprovalNotFound, match=r"abcd0.*or abcd4\d+, or one of 3 more\."):
        Finder(Lists(waiting)).find("abcd")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "too short"),
        ("abc", "too short"),
        ("ffff", "No question that waits"),
        ("run_", "No question"),
        ("\x1b[2Jx" * 40, r"\\u001b\[2Jx"),
        ("'; DEL *", "No question"),
    ],
)
def test_what_means_nothing_is_one_clear_error(text: str, why: str) -> None:
    """It says where ids are to be had."""
    with pytest.raises(ApprovalNotFound, match=why) as caught:
        Finder(Lists([])).find(text)

    assert "toolrail approvals list" in str(caught.value)


def test_each_list_is_read_once_for_many_ids() -> None:
    """`deny` of fifty ids reads no fifty lists."""
    lists = Lists([id_of("a" * 16), id_of("b" * 16)])
    finder = Finder(lists)
    for text in ("aaaaaaaa", "bbbbbbbb", "aaaa", "bbbb"):
        finder.find(text)

    assert lists.reads == ["ids", "lately"]
