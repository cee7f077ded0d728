"""Bare Redis: the round trips of a call and nothing else. Run as a program, see `contender.py`.

Is: the physical limit of Toolrail's design from Python: a push; then in batches of 100 a pop, one
command for the claim, one for the finish, and the read of the inbox. Is not: a queue anybody could
use: no state, lease, policy, deadline or journal. Above: `contender.py`. Below: redis-py.
"""

from typing import cast

import orjson
from redis import Redis

from tests.bench.contender import contend_blocking
from tests.bench.phases import Payload

BATCH = 100
READ = 1_000
Reply = list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]
BELLS, INBOX = "bells", "inbox"


class Client:
    """A caller that numbers its calls; for one thread."""

    def __init__(self, url: str) -> None:
        self._redis = Redis.from_url(url)
        self._sent = 0
        self._last: bytes | str = "0-0"
        self._results: dict[int, bytes] = {}

    def send(self, payload: Payload) -> object:
        """Push the whole call."""
        self._sent += 1
        self._redis.lpush(BELLS, b"%d:%b" % (self._sent, orjson.dumps(payload)))
        return self._sent

    def result(self, handle: object) -> object:
        """Read the inbox until it is there."""
        number = cast("int", handle)
        while number not in self._results:
            streams = {INBOX: self._last}
            reply = self._redis.xread(streams, count=READ, block=0)  # type: ignore[arg-type]  # invariant
            [(_, entries)] = cast(
                "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]", reply
            )
            for self._last, fields in entries:
                self._results[int(fields[b"n"])] = fields[b"r"]
        return cast("object", orjson.loads(self._results.pop(number)))


def work(url: str) -> None:
    """Be the worker."""
    redis = Redis.from_url(url)
    while True:
        _, bells = cast(
            "tuple[bytes, list[bytes]]", redis.blmpop(0, 1, BELLS, direction="RIGHT", count=BATCH)
        )
        claims = redis.pipeline(transaction=False)
        for bell in bells:
            claims.echo(bell)
        finishes = redis.pipeline(transaction=False)
        for claimed in cast("list[bytes]", claims.execute()):
            number, _, text = claimed.partition(b":")
            finishes.xadd(INBOX, {"n": number, "r": orjson.dumps(orjson.loads(text))})
        finishes.execute()


if __name__ == "__main__":
    contend_blocking(Client, work)
