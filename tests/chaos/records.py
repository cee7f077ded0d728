"""Write down what clients and tools saw, and read it and the journals back for the checker.

Is: append-only lines that outlive a SIGKILL of whoever wrote them, and journals as they stand in
Redis, read without the product's reader. Is not: a judgement (`checker.py`). Above: `rig.py`, the
effect tools, the checker. Below: redis-py, for the journals alone.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import redis
from pydantic import TypeAdapter

JOURNAL_KEYS = "run:*:journal"


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a run's journal."""

    seq: int
    type: str
    at_ms: int
    """By the clock of Redis, which is that of this machine."""
    call_id: str = ""
    """Empty for what belongs to no call."""
    name: str = ""
    attempt: int = 0
    """Only of started and lost attempts."""
    worker: str = ""
    error_code: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A client was told that its call is accepted."""

    run_id: str
    call_id: str
    """Of this call alone in all runs of a test."""
    repeatable: bool
    """Whether the tool may have its effect again."""
    at_ms: int


@dataclass(frozen=True, slots=True)
class Answered:
    """A client was given a result."""

    run_id: str
    call_id: str
    error_code: str
    """Empty for a success."""
    at_ms: int


@dataclass(frozen=True, slots=True)
class Effect:
    """A tool did what cannot be undone."""

    call_id: str
    at_ms: int
    pid: int


Journals = Mapping[str, Sequence[Event]]
"""By run."""


@dataclass(frozen=True, slots=True)
class Records:
    """All that the checker may look at."""

    journals: Journals
    accepted: Sequence[Accepted] = ()
    answered: Sequence[Answered] = ()
    effects: Sequence[Effect] = ()


def now_ms() -> int:
    """Return the wall clock, which processes and Redis of this machine share."""
    return time.time_ns() // 1_000_000


def write_line(file: Path, record: Accepted | Answered | Effect) -> None:
    """Append a record in one write: whole or not at all, however its process ends."""
    line = json.dumps(asdict(record)) + "\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def write_effect(file: Path, call_id: str) -> None:
    """Have the effect that can be counted."""
    write_line(file, Effect(call_id, now_ms(), os.getpid()))


class Histories:
    """What the clients of one test saw, in files of one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.accepted_file = folder / "accepted"
        self.answered_file = folder / "answered"
        self.effects_file = folder / "effects"

    def accepted(self, run_id: str, call_id: str, *, repeatable: bool) -> None:
        """Note an acceptance."""
        write_line(self.accepted_file, Accepted(run_id, call_id, repeatable, now_ms()))

    def answered(self, run_id: str, call_id: str, error_code: str | None) -> None:
        """Note a result."""
        write_line(self.answered_file, Answered(run_id, call_id, error_code or "", now_ms()))

    def effects(self, call_id: str | None = None) -> list[Effect]:
        """Return the effects there were, of one call or of all."""
        found = TypeAdapter(list[Effect]).validate_python(_lines(self.effects_file))
        return [effect for effect in found if call_id in (None, effect.call_id)]

    def read(self, journals: Journals) -> Records:
        """Return everything, with the journals."""
        return Records(
            journals=journals,
            accepted=TypeAdapter(list[Accepted]).validate_python(_lines(self.accepted_file)),
            answered=TypeAdapter(list[Answered]).validate_python(_lines(self.answered_file)),
            effects=self.effects(),
        )


def read_journals(url: str, prefix: str) -> dict[str, list[Event]]:
    """Return every journal of a cell, by run."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        scan = cast("Iterator[str]", client.scan_iter(match=prefix + JOURNAL_KEYS, count=1000))
        head, tail = len(prefix + "run:"), len(":journal")
        return {key[head:-tail]: _journal(client, key) for key in scan}


def _journal(client: "redis.Redis", key: str) -> list[Event]:
    entries = cast("list[tuple[str, dict[str, str]]]", client.xrange(key))
    return [_event(entry_id, fields) for entry_id, fields in entries]


def _event(entry_id: str, fields: Mapping[str, str]) -> Event:
    payload = cast("dict[str, object]", json.loads(fields["p"]))
    return Event(
        seq=int(entry_id.partition("-")[0]),
        type=fields["type"],
        at_ms=int(fields["ts"]),
        call_id=fields.get("call_id", ""),
        name=fields.get("name", ""),
        attempt=int(str(payload.get("attempt", 0))),
        worker=str(payload.get("worker", "")),
        error_code=str(payload.get("error_code") or ""),
    )


def _lines(file: Path) -> list[object]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
