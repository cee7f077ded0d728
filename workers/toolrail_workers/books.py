"""Hold what everybody needs who changes calls without running them.

Is: the ledger with its reader, blobs, keys, doorbell and one actor's name, as one value. Is not:
a decision. Above: `lost.py`, `rebell.py`, `sweeps.py`, `run_sweeps.py`. Below: the ledger.
"""

from dataclasses import dataclass

from redis.asyncio import Redis

from toolrail.blobs import Blobs
from toolrail.closing import Guard, close_call
from toolrail.doorbell import DoorbellPort
from toolrail.keys import Keys
from toolrail.ledger import Closed, Ledger, LedgerReader, StoredCall
from toolrail_schemas import Doorbell


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The books of one cell, as one actor writes them."""

    redis: Redis
    ledger: Ledger
    reader: LedgerReader
    blobs: Blobs
    keys: Keys
    doorbell: DoorbellPort
    secret: bytes
    actor: str
    """`runtime:reaper` or `worker:<id>`."""
    deadline_s: float
    """Patience with Redis."""

    def sign(self, call: StoredCall, attempt: int) -> Doorbell:
        """Return the doorbell of one attempt."""
        return Doorbell.ring(
            self.secret, run_id=call.run_id, call_key=call.call_key, attempt=attempt
        )

    async def close(
        self, call: StoredCall, *, guard: Guard, code: str, dead_letter: bool = False
    ) -> Closed:
        """The call has failed with this code, unless the guard no longer holds."""
        return await close_call(
            self.ledger,
            self.blobs,
            call,
            guard=guard,
            code=code,
            actor=self.actor,
            dead_letter=dead_letter,
        )
