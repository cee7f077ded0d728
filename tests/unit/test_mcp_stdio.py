"""Framing and the stderr ring, on bytes alone.

Is: the pure parts of the stdio transport. Is not: processes (`tests/component/test_mcp_faults.py`).
Above: nothing. Below: `toolrail_workers.mcp.stdio`.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrail_workers.mcp.stdio import LineBuffer, LineTooLong, StderrRing

CHUNKS = st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"a", b"\n")), max_size=12)


@given(chunks=CHUNKS)
def test_lines_do_not_depend_on_how_the_bytes_arrive(chunks: list[bytes]) -> None:
    """Any cutting of a stream gives the lines of the whole."""
    buffer = LineBuffer(1_000)
    lines = [line for chunk in chunks for line in buffer.feed(chunk)]

    assert lines == b"".join(chunks).split(b"\n")[:-1]


@given(chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=12))
def test_no_line_over_the_limit_is_ever_held(chunks: list[bytes]) -> None:
    """The buffer refuses at the first chunk that makes a line too long."""
    buffer = LineBuffer(20)
    stream = b""
    for chunk in chunks:
        stream += chunk
        too_long = any(len(line) > 20 for line in stream.split(b"\n"))
        if too_long:
            with pytest.raises(LineTooLong):
                buffer.feed(chunk)
            return
        buffer.feed(chunk)


@given(chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=30))
def test_the_ring_keeps_the_end_of_what_was_said(chunks: list[bytes]) -> None:
    """Whatever was said before, the last bytes are there."""
    ring = StderrRing(64)
    for chunk in chunks:
        ring.append(chunk)
    said = b"".join(chunks)

    assert ring.tail(64) == said[-64:].decode("utf-8", errors="replace")
