"""What the exporter knows of the cell at one moment, frozen.

Is: plain values with their units. Is not: how they are read (`reader.py`) or shown (`fleet.py`).
Above: both. Below: nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReading:
    """One queue.

    Attributes:
        depth: Calls that wait for a worker.
        doorbells: Messages in its list.
        oldest_ms: For how long the oldest of the calls rung for first has waited; 0 for none.
        workers: Workers that take from it.
    """

    depth: int = 0
    doorbells: int = 0
    oldest_ms: int = 0
    workers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisReading:
    """The server.

    Attributes:
        memory_used_bytes: What it uses.
        memory_max_bytes: What it may use; 0 is no limit.
        evicted_keys: Since it started.
        connected_clients: Now.
        aof_enabled: It keeps an append-only file.
        aof_ok: The last write to that file succeeded.
        rdb_ok: The last snapshot succeeded.
    """

    memory_used_bytes: int = 0
    memory_max_bytes: int = 0
    evicted_keys: int = 0
    connected_clients: int = 0
    aof_enabled: bool = False
    aof_ok: bool = False
    rdb_ok: bool = False

    @property
    def persistence_ok(self) -> bool:
        """Whether what is acknowledged is on its way to a disk that takes it."""
        return self.aof_enabled and self.aof_ok and self.rdb_ok


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Everything, read at one moment.

    Attributes:
        read_at_s: When, by the exporter's clock, in seconds since 1970.
        totals: Of one instant, so that the books balance.
        tools: Counters by tool; may be a little older.
        rules: Denials by layer and rule.
        queues: By name.
        approval_oldest_ms: By source, for how long the oldest parked call has waited.
        dead_letters: By source.
        runs_open: Runs that have not ended.
        journal_length: Entries of `journal:all`.
        redis: The server.
    """

    read_at_s: float
    totals: Mapping[str, int]
    tools: Mapping[str, int]
    rules: Mapping[str, int]
    queues: Mapping[str, QueueReading]
    approval_oldest_ms: Mapping[str, int]
    dead_letters: Mapping[str, int]
    runs_open: int
    journal_length: int
    redis: RedisReading
