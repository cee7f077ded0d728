"""The chat tools show a run its own chat, as it was when the run began, page by page."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.component.libraries import TENANT, Reader, ask, messages_of, reader
from toolrail.chat import ChatKey, Message, Role
from toolrail.errors import ToolError
from toolrail_schemas import JsonObject
from toolrail_workers.builtin.library.facts import LocalFacts
from toolrail_workers.builtin.library.history import CHARS_MAX, COUNT_MAX

KEY = ChatKey(TENANT, "c")
TAIL = "chat.read_history_tail"
BEFORE = "chat.read_history_before"


@pytest.fixture
def run(tmp_path: Path) -> Reader:
    """A run whose chat is `c`."""
    return reader(tmp_path)


def pages(run: Reader, **size: int) -> list[JsonObject]:
    """Return all pages from the newest on."""
    found = [run.run(TAIL, dict(size))]
    while found[-1]["before_cursor"] is not None:
        found.append(run.run(BEFORE, {"cursor": found[-1]["before_cursor"], **size}))
    return found


def indexes(found: list[JsonObject]) -> list[int]:
    """Return the indexes of all messages, in the order of the chat."""
    return [int(str(one["index"])) for page in reversed(found) for one in messages_of(page)]


def code_of(run: Reader, name: str, arguments: JsonObject) -> str:
    """Return the code that a call is refused with."""
    with pytest.raises(ToolError) as refused:
        run.run(name, arguments)
    assert refused.value.next_action
    return refused.value.code


def test_a_search_that_finds_nothing_is_a_success(run: Reader) -> None:
    """Row 1 of semantics 7: an empty answer is no error."""
    run.say("Hello there")

    answer = run.run("chat.search", {"query": "dragon"})

    assert (answer["count"], answer["hits"]) == (0, [])


def test_the_tail_comes_in_order_and_leads_to_the_page_before(run: Reader) -> None:
    """The newest messages, the oldest of them first."""
    run.say(*(f"message {n}" for n in range(5)))

    tail, before, first = pages(run, count=2)

    assert [one["text"] for one in messages_of(tail)] == ["message 3", "message 4"]
    assert [one["index"] for one in messages_of(before)] == [1, 2]
    assert first["before_cursor"] is None
    assert tail["total_messages"] == 5


def test_an_empty_chat_is_an_empty_page(run: Reader) -> None:
    """A chat that nobody wrote to is no error either."""
    assert run.run(TAIL, {}) == {"messages": [], "before_cursor": None, "total_messages": 0}


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 120), max_size=40),
    counts=st.lists(st.integers(1, COUNT_MAX), min_size=1, max_size=6),
    chars=st.lists(st.integers(1, 200), min_size=1, max_size=6),
)
def test_pages_tile_the_chat_whatever_their_sizes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], counts: list[int], chars: list[int]
) -> None:
    """No gap and no overlap, even if every page asks for another size."""
    run = reader(tmp_path_factory.mktemp("tiles"))
    run.say(*("x" * size for size in sizes))
    found, turn = [run.run(TAIL, {"count": counts[0], "max_chars": chars[0]})], 0
    while found[-1]["before_cursor"] is not None:
        turn += 1
        size: JsonObject = {
            "count": counts[turn % len(counts)],
            "max_chars": chars[turn % len(chars)],
        }
        found.append(run.run(BEFORE, {"cursor": found[-1]["before_cursor"], **size}))

    assert indexes(found) == list(range(len(sizes)))


def test_a_message_larger_than_a_page_is_cut_on_a_page_of_its_own(run: Reader) -> None:
    """What was left out is named by characters; what fits a page is never cut."""
    run.say("a" * 90, "b" * 150, "c" * 60)

    newest, large, oldest = pages(run, max_chars=100)

    assert [one["text"] for one in messages_of(newest)] == ["c" * 60]
    [cut] = messages_of(large)
    assert cut["truncated"] is True
    assert cut["text"] == "b" * 100
    assert cut["rest"] == "chat:current#1:chars=100..150"
    assert [one["text"] for one in messages_of(oldest)] == ["a" * 90]


def test_a_page_ends_before_the_models_budget_does(run: Reader) -> None:
    """A worker would cut a longer answer, and with it tear a hole into the history."""
    run.say(*("龙" * 900 for _ in range(30)))

    output = run.output(TAIL, {"count": 50, "max_chars": CHARS_MAX}, max_tokens=3_000)

    assert isinstance(output.structured, dict)
    assert len(messages_of(output.structured)) == 2


def test_what_is_said_after_the_run_began_does_not_exist_for_it(run: Reader) -> None:
    """The prefix is frozen: search, pages and totals end where it ends."""
    run.say("the first dragon")
    assert run.search("dragon") == [0]
    run.say("the second dragon")

    assert run.search("dragon") == [0]
    assert run.run(TAIL, {})["total_messages"] == 1
    assert indexes(pages(run)) == [0]
    assert run.search("dragon", end_index=99) == [0]


def test_a_caller_may_say_how_much_of_the_chat_exists(tmp_path: Path) -> None:
    """Whoever opened the run knows its first moment; nobody has to look before the end."""
    run = reader(tmp_path, LocalFacts(chat="c", chat_messages=2))
    run.say("one dragon", "two dragons", "three dragons")

    assert run.run(TAIL, {})["total_messages"] == 2


def test_a_run_without_a_chat_is_told_so(tmp_path: Path) -> None:
    """The model goes on without it."""
    run = reader(tmp_path, LocalFacts())

    assert code_of(run, TAIL, {}) == "chat.not_bound"


def test_no_other_chat_is_ever_read(run: Reader) -> None:
    """Neither another chat of the tenant nor the same name of another tenant."""
    run.say("a secret of another chat", chat="other")
    run.stores.chats.append(
        ChatKey("rival", "c"), [Message(role=Role.USER, content="a secret of a rival")]
    )

    assert run.search("secret") == []
    assert run.run(TAIL, {})["total_messages"] == 0


def test_a_cursor_that_we_did_not_make_is_refused(run: Reader) -> None:
    """Whatever byte of it is changed."""
    run.say("one", "two", "three")
    cursor = str(run.run(TAIL, {"count": 1})["before_cursor"])
    forged = [
        cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :]
        for at in range(len(cursor))
    ]

    codes = {code_of(run, BEFORE, {"cursor": text}) for text in [*forged, "x", "é", cursor[:-4]]}

    assert codes == {"chat.invalid_cursor"}


def test_a_cursor_leads_into_no_other_chat(run: Reader, tmp_path: Path) -> None:
    """The digest of the chat is signed with it."""
    run.say("one", "two")
    run.say("one", "two", chat="d")
    cursor = run.run(TAIL, {"count": 1})["before_cursor"]
    other = reader(tmp_path, LocalFacts(chat="d"))

    assert code_of(other, BEFORE, {"cursor": cursor}) == "chat.invalid_cursor"


def test_a_cursor_of_another_secret_or_version_is_refused(run: Reader) -> None:
    """A signed body is what counts, not its shape."""
    run.say("one", "two")
    cursor = str(run.run(TAIL, {"count": 1})["before_cursor"])
    body = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[16:])

    assert set(body) == {"v", "chat_digest", "snapshot_len", "before_index", "anchor_sha"}
    bare = base64.urlsafe_b64encode(json.dumps(body).encode()).decode()
    assert code_of(run, BEFORE, {"cursor": bare}) == "chat.invalid_cursor"


def test_a_cursor_is_stale_once_its_message_was_edited(run: Reader) -> None:
    """The page before would not fit the page that was read."""
    run.say("one", "two", "three")
    cursor = run.run(TAIL, {"count": 1})["before_cursor"]
    run.stores.chats.edit(KEY, 1, Message(role=Role.USER, content="2"))
    assert messages_of(run.run(BEFORE, {"cursor": cursor}))[1]["text"] == "2"

    run.stores.chats.edit(KEY, 2, Message(role=Role.USER, content="3"))

    assert code_of(run, BEFORE, {"cursor": cursor}) == "chat.stale_cursor"


def test_a_cursor_is_stale_once_the_chat_was_replaced(run: Reader) -> None:
    """A shorter chat has another end, and the run sees no more than there is."""
    run.say("one", "two", "three")
    cursor = run.run(TAIL, {"count": 1})["before_cursor"]
    run.stores.chats.append(KEY, [Message(role=Role.USER, content="new")], anew=True)

    assert code_of(run, BEFORE, {"cursor": cursor}) == "chat.stale_cursor"
    assert run.run(TAIL, {})["total_messages"] == 1


@pytest.mark.parametrize("query", ["!!!", " ", '""', "—…", "\u3000"])
def test_a_query_without_a_word_is_refused(run: Reader, query: str) -> None:
    """There is nothing to look for, and the model is told to name something."""
    run.say("Hello")

    assert code_of(run, "chat.search", {"query": query}) == "chat.empty_query"


def test_where_no_message_has_all_words_those_with_some_are_given(run: Reader) -> None:
    """A model asks in sentences; the answer says that not all was found."""
    run.say("the dragon sleeps", "a knight rides")

    answer = run.run("chat.search", {"query": "dragon knight battle"})

    assert answer["words"] == "some"
    assert sorted(run.search("dragon knight battle")) == [0, 1]


def test_a_search_is_narrowed_by_role_range_and_scan(run: Reader) -> None:
    """Each bound holds, alone and with the others."""
    run.say(*(f"dragon {n}" for n in range(4)))
    run.say(*(f"dragon {n}" for n in range(4)), role=Role.ASSISTANT)

    assert sorted(run.search("dragon", role="assistant")) == [4, 5, 6, 7]
    assert sorted(run.search("dragon", start_index=2, end_index=5)) == [2, 3, 4]
    assert sorted(run.search("dragon", scan_limit=3)) == [5, 6, 7]
    assert run.search("dragon", start_index=6, end_index=3) == []
    assert len(run.search("dragon", limit=2)) == 2


def test_the_count_is_frozen_once_for_all_workers(tmp_path: Path) -> None:
    """Another worker of the run gets what the first one wrote down."""
    facts = LocalFacts(chat="c")

    assert ask(facts.first("r", "chat_messages", 3)) == 3
    assert ask(facts.first("r", "chat_messages", 9)) == 3
