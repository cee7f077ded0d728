"""Lines of a server, good and damaged, as messages.

Is: `wire.py`. Is not: framing (`test_mcp_stdio.py`). Above: nothing.
Below: `toolrail_workers.mcp.wire`.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCResponse

from toolrail_workers.mcp.wire import read_message


def line(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def test_a_good_line_is_its_message() -> None:
    """Answers and notices alike."""
    assert isinstance(read_message(line(id=1, result={})), JSONRPCResponse)
    assert isinstance(read_message(line(method="notifications/x")), JSONRPCNotification)


@pytest.mark.parametrize("name", ["\\ud800.txt", "\\udcff"])
def test_half_a_surrogate_pair_costs_no_answer(name: str) -> None:
    """Python servers write them for file names that are not UTF-8."""
    damaged = line(id=1, result={"text": "NAME"}).replace(b"NAME", name.encode())
    message = read_message(damaged)

    assert isinstance(message, JSONRPCResponse)
    assert message.result["text"].startswith("?")


def test_bytes_that_are_no_text_cost_no_answer() -> None:
    """A server that writes Latin-1 is still understood as far as possible."""
    message = read_message(line(id=1, result={"text": "NAME"}).replace(b"NAME", b"caf\xe9"))

    assert isinstance(message, JSONRPCResponse)
    assert message.result["text"] == "caf\ufffd"


@pytest.mark.parametrize("answer", [{"result": []}, {"result": None}, {}, {"error": "no"}])
def test_a_malformed_answer_becomes_an_error_answer(answer: dict[str, object]) -> None:
    """Dropped, it would leave its call waiting for the deadline."""
    message = read_message(line(id=7, **answer))

    assert isinstance(message, JSONRPCError)
    assert message.id == 7


@pytest.mark.parametrize(
    "junk", [b"", b"starting up...", b"7", b"[]", b"{}", b"[" * 100_000, b'{"id": true}']
)
def test_a_line_that_is_no_message_is_none(junk: bytes) -> None:
    """Prints of a server, and attempts to break the reader."""
    assert read_message(junk) is None


@given(data=st.binary(max_size=40))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    """Whatever they are."""
    read_message(data)
    read_message(b'{"jsonrpc":"2.0","id":1,"result":{"a":"' + data + b'"}}')
