"""Carry the one thing a broker message says: look at this call.

Is: `Doorbell` and its MAC. Is not: truth; losing, doubling or forging one changes only latency.
Above: dispatcher, workers. Below: `_base.py`.
"""

import hmac
from typing import Self

from toolrail_schemas._base import CallKey, Positive, RunId, Sha256Hex, WireModel


class Doorbell(WireModel):
    """Which attempt of which call is waiting; the keyword arguments of task `toolrail.call`."""

    run_id: RunId
    call_key: CallKey
    attempt: Positive
    mac: Sha256Hex

    @classmethod
    def ring(cls, secret: bytes, *, run_id: str, call_key: str, attempt: int) -> Self:
        """Return a doorbell signed with the cell's secret."""
        mac = doorbell_mac(secret, run_id, call_key, attempt)
        return cls(run_id=run_id, call_key=call_key, attempt=attempt, mac=mac)

    def verify(self, secret: bytes) -> bool:
        """Return whether the MAC is ours, in constant time."""
        expected = doorbell_mac(secret, self.run_id, self.call_key, self.attempt)
        return hmac.compare_digest(expected, self.mac)

    @property
    def task_id(self) -> str:
        """The Celery task id of this attempt."""
        return f"{self.call_key}.{self.attempt}"


def doorbell_mac(secret: bytes, run_id: str, call_key: str, attempt: int) -> str:
    """Return the HMAC-SHA256 of a doorbell's fields as hex."""
    message = f"{run_id}\x00{call_key}\x00{attempt}".encode()
    return hmac.digest(secret, message, "sha256").hex()


def verify_doorbell(doorbell: Doorbell, secret: bytes) -> bool:
    """Return whether the doorbell's MAC is ours, in constant time."""
    return doorbell.verify(secret)
