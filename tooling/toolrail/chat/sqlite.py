"""Keep chats in SQLite, one file for each, searched by its own full text engine (FTS5).

Is: the store that needs no service. A file of its own gives a chat its own ranking, its own writer
and its own end. Is not: tokenising: FTS5 gets words that are cut already, as ASCII would be.
Above: `opening.py`. Below: `store.py`, `query.py`, `sqlite3` of the standard library.

Every use opens the file anew, which takes a fraction of a millisecond; so no thread shares a
connection and a file that was replaced is seen at once. Writing is one transaction, whatever its
size.
"""

import contextlib
import hashlib
import itertools
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import cast

from toolrail.chat.query import ChatQuery, Unit
from toolrail.chat.store import (
    RANKED_MAX,
    ChatKey,
    Excerpt,
    Match,
    Message,
    Role,
    Scope,
    checked,
    no_message,
    unavailable,
)
from toolrail.errors import ConfigError
from toolrail.search.terms import words

BATCH = 1_000
"""Messages that are held at once while many are written."""
BUSY_S = 10.0
"""Patience with another writer of the same chat; readers never wait."""
_FORMAT = 1
# The tokenizer leaves every byte above ASCII alone, so our words pass as they are. No copy of the
# text is kept: what is stored once is enough. One and two letters are common prefixes, and single
# characters of Chinese are searched as such.
_SCHEMA = f"""
CREATE TABLE about (tenant TEXT NOT NULL, chat TEXT NOT NULL);
CREATE TABLE message (
    position INTEGER PRIMARY KEY, role TEXT NOT NULL, name TEXT, content TEXT NOT NULL
);
CREATE VIRTUAL TABLE term USING fts5(
    words, role, content='', tokenize='ascii', prefix='1 2'
);
PRAGMA user_version = {_FORMAT};
"""
_INSERT = "INSERT INTO message (position, role, name, content) VALUES (?, ?, ?, ?)"
_INDEX = "INSERT INTO term (rowid, words, role) VALUES (?, ?, ?)"
_FORGET = "INSERT INTO term (term, rowid, words, role) VALUES ('delete', ?, ?, ?)"
_RANKED = """
SELECT position, role, name, content, score FROM (
    SELECT rowid, bm25(term, 1.0, 0.0) AS score FROM term
    WHERE term MATCH :match AND rowid >= :start AND rowid < :end
    ORDER BY score, rowid DESC LIMIT :limit
) JOIN message ON position = rowid ORDER BY score, position DESC
"""
_NEWEST = """
SELECT rowid FROM term WHERE term MATCH :match AND rowid >= :start AND rowid < :end
ORDER BY rowid DESC LIMIT 1 OFFSET :ranked
"""


class SqliteChats:
    """The chats below one folder. Usable from many threads and processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def count(self, chat: ChatKey) -> int:
        """Return how many messages the chat has."""
        with self._reading(chat) as database:
            return 0 if database is None else _count(database)

    def append(self, chat: ChatKey, messages: Iterable[Message], *, anew: bool = False) -> int:
        """Add messages at the end, all or none; see `ChatStore.append`."""
        with self._writing(chat) as database:
            if anew:
                _forget_all(database)
            start = _count(database)
            numbered = enumerate(map(checked, messages), start)
            while batch := list(itertools.islice(numbered, BATCH)):
                _insert(database, batch)
            return _count(database)

    def edit(self, chat: ChatKey, index: int, message: Message) -> None:
        """Put another message in the place of one; see `ChatStore.edit`."""
        checked(message)
        with self._writing(chat) as database:
            _forget(database, index, index + 1)
            _insert(database, [(index, message)])

    def read(self, chat: ChatKey, start: int, end: int, *, max_chars: int) -> Sequence[Excerpt]:
        """Return messages in order; see `ChatStore.read`."""
        with self._reading(chat) as database:
            if database is None:
                return []
            rows = database.execute(
                "SELECT position, role, name, substr(content, 1, ?), length(content)"
                " FROM message WHERE position >= ? AND position < ? ORDER BY position",
                (max_chars, start, end),
            )
            return [
                Excerpt(index=index, role=Role(role), name=name, text=text, chars=chars)
                for index, role, name, text, chars in cast(
                    "Iterable[tuple[int, str, str | None, str, int]]", rows
                )
            ]

    def search(
        self, chat: ChatKey, query: ChatQuery, scope: Scope, *, limit: int
    ) -> Sequence[Match]:
        """Return the best matches; see `ChatStore.search`."""
        with self._reading(chat) as database:
            if database is None:
                return []
            asked: dict[str, str | int] = {
                "match": _expression(query, scope.role),
                "start": scope.start,
                "end": scope.end,
                "ranked": RANKED_MAX,
                "limit": limit,
            }
            beyond = cast("tuple[int] | None", database.execute(_NEWEST, asked).fetchone())
            if beyond is not None:
                asked["start"] = beyond[0] + 1
            rows = cast(
                "Iterable[tuple[int, str, str | None, str, float]]",
                database.execute(_RANKED, asked),
            )
            return [
                Match(
                    message=Excerpt(
                        index=index, role=Role(role), name=name, text=text, chars=len(text)
                    ),
                    score=-score,
                )
                for index, role, name, text, score in rows
            ]

    def close(self) -> None:
        """Nothing is open between two uses."""

    def place_of(self, chat: ChatKey) -> Path:
        """Return the file of a chat, there or not; ids may hold what no file name can."""
        digest = hashlib.sha256(f"{chat.tenant}\x00{chat.chat}".encode()).hexdigest()
        return self._folder / f"{digest[:40]}.sqlite3"

    @contextlib.contextmanager
    def _reading(self, chat: ChatKey) -> Generator[sqlite3.Connection | None]:
        """Give the chat's database as it is now, or None if there is none."""
        place = self.place_of(chat)
        if not place.exists():
            yield None
            return
        with _failures(), contextlib.closing(_connect(place)) as database:
            # One snapshot for all that is read here, whoever writes meanwhile.
            database.execute("BEGIN")
            yield database if _is_made(database) else None

    @contextlib.contextmanager
    def _writing(self, chat: ChatKey) -> Generator[sqlite3.Connection]:
        """Give the chat's database in one transaction, which ends well or leaves no trace."""
        place = self.place_of(chat)
        place.parent.mkdir(parents=True, exist_ok=True)
        with _failures(), contextlib.closing(_connect(place)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("BEGIN IMMEDIATE")
            try:
                if not _is_made(database):
                    _make(database, chat)
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")


def _connect(place: Path) -> sqlite3.Connection:
    # Statements begin and end transactions themselves.
    database = sqlite3.connect(place, timeout=BUSY_S, isolation_level=None)
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def _is_made(database: sqlite3.Connection) -> bool:
    [found] = cast("tuple[int]", database.execute("PRAGMA user_version").fetchone())
    if found not in {0, _FORMAT}:
        raise ConfigError(
            f"A chat's file has format {found}, and this version reads {_FORMAT}.",
            fix="Use the version of Toolrail that wrote it.",
        )
    return found == _FORMAT


def _make(database: sqlite3.Connection, chat: ChatKey) -> None:
    for statement in filter(str.strip, _SCHEMA.split(";")):
        try:
            database.execute(statement)
        except sqlite3.OperationalError as error:
            if "fts5" not in str(error):
                raise
            raise ConfigError(
                "This Python's SQLite has no FTS5.", fix="Use another Python, or PostgreSQL."
            ) from None
    database.execute("INSERT INTO about VALUES (?, ?)", (chat.tenant, chat.chat))


def _count(database: sqlite3.Connection) -> int:
    row = database.execute("SELECT position FROM message ORDER BY position DESC LIMIT 1").fetchone()
    return 0 if row is None else cast("tuple[int]", row)[0] + 1


def _insert(database: sqlite3.Connection, batch: Sequence[tuple[int, Message]]) -> None:
    database.executemany(
        _INSERT,
        [(index, message.role, message.name, message.content) for index, message in batch],
    )
    database.executemany(
        _INDEX,
        [(index, " ".join(words(message.content)), message.role) for index, message in batch],
    )


def _forget(database: sqlite3.Connection, start: int, end: int) -> None:
    """Take out messages and their words, which have to be told since no copy is kept."""
    rows = cast(
        "list[tuple[int, str, str]]",
        database.execute(
            "DELETE FROM message WHERE position >= ? AND position < ?"
            " RETURNING position, content, role",
            (start, end),
        ).fetchall(),
    )
    if not rows:
        raise no_message(start)
    database.executemany(
        _FORGET, [(index, " ".join(words(content)), role) for index, content, role in rows]
    )


def _forget_all(database: sqlite3.Connection) -> None:
    database.execute("DELETE FROM message")
    database.execute("INSERT INTO term (term) VALUES ('delete-all')")


def _expression(query: ChatQuery, role: Role | None) -> str:
    """Return the query in the language of FTS5; our words hold nothing that it would read."""
    wanted = [_phrase(unit) for unit in query.required]
    optional = " OR ".join(_phrase(unit) for unit in query.optional)
    if optional and not wanted:
        wanted = [f"({optional})"]
    elif optional:
        # What is required is found with or without the rest, which only ranks it higher.
        required = " AND ".join(wanted)
        wanted = [f"(({required}) OR (({required}) AND ({optional})))"]
    expression = f"words : ({' AND '.join(wanted)})"
    return expression if role is None else f'{expression} AND role : "{role}"'


def _phrase(unit: Unit) -> str:
    return f'"{" ".join(unit.words)}"{" *" if unit.is_prefix else ""}'


@contextlib.contextmanager
def _failures() -> Generator[None]:
    """Turn what SQLite could not do into what a model or an operator is told."""
    try:
        yield
    except sqlite3.Error as error:
        raise unavailable() from error
