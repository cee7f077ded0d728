"""Bring what a child prints into the worker's log, and no more of it than is good.

Is: the reading end of one child's standard output and error. Is not: results, which travel on a
socket of their own that printing cannot disturb.
Above: `handle.py`. Below: asyncio, logging.
"""

import asyncio
import logging
from typing import cast

from toolrail.redaction import clean_said
from toolrail_schemas import REDACTED

log = logging.getLogger(__name__)

LINE_BYTES = 8_192
"""Longest line; a longer one is cut into several."""

CALL_BYTES = 65_536
"""What one call may print into the log; the rest is counted and dropped."""

BREATH_S = 0.01
"""Pause between two reads of a call that printed too much: it is slowed, the worker is not."""

KEY_BEGINS = ("-----BEGIN", "PRIVATE KEY-----")
KEY_ENDS = "-----END"

CONTROL = dict.fromkeys([*range(9), *range(10, 32), 127], "\N{REPLACEMENT CHARACTER}")
"""What a terminal would obey, and a reader of logs could be fooled by. Tabs may stay."""


class ChildOutput(asyncio.Protocol):
    """Log lines of one child, with the call that was running.

    What tools print may hold content, so it is logged for who debugs only, and without secrets.
    """

    def __init__(self) -> None:
        self._transport: asyncio.ReadTransport | None = None
        self._partial = bytearray()
        self._left = CALL_BYTES
        self._dropped = 0
        self._call_key = ""
        self._in_key = False
        """A private key is being printed, whose lines by themselves look like nothing."""

    def begin_call(self, call_key: str) -> None:
        """Give the next call a budget of its own, and its key to every line it prints."""
        if self._dropped:
            self._tell_dropped()
        self._left = CALL_BYTES
        self._call_key = call_key
        self._in_key = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to slow the reading down."""
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Log complete lines within the budget."""
        taken = data[: self._left]
        self._left -= len(taken)
        self._partial += taken
        *lines, rest = self._partial.split(b"\n")
        self._partial = rest
        for line in lines:
            self._log(line)
        if len(self._partial) >= LINE_BYTES:
            self._log(self._partial)
            self._partial = bytearray()
        if len(taken) < len(data):
            self._dropped += len(data) - len(taken)
            self._breathe()

    def connection_lost(self, exc: Exception | None) -> None:
        """Log what is left when the child is gone."""
        self._transport = None
        if self._partial:
            self._log(self._partial)
        if self._dropped:
            self._tell_dropped()

    def close(self) -> None:
        """Stop reading."""
        if self._transport is not None:
            self._transport.close()

    def _breathe(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(BREATH_S, self._resume)

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _log(self, line: bytes | bytearray) -> None:
        for start in range(0, len(line), LINE_BYTES):
            said = line[start : start + LINE_BYTES].decode("utf-8", "replace")
            text = self._without_keys(said, clean_said(said)).translate(CONTROL)
            log.debug("child.output: %s", text, extra={"call_key": self._call_key, "line": text})

    def _without_keys(self, said: str, cleaned: str) -> str:
        was_in_key = self._in_key
        begins = all(part in said for part in KEY_BEGINS)
        self._in_key = (was_in_key or begins) and KEY_ENDS not in said
        return REDACTED if was_in_key else cleaned

    def _tell_dropped(self) -> None:
        log.warning(
            "child.output_dropped: %d bytes over the limit of a call",
            self._dropped,
            extra={"call_key": self._call_key, "dropped_bytes": self._dropped},
        )
        self._dropped = 0
