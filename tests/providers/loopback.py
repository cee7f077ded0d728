"""Be a provider's server on this machine: keep what was asked, answer what a test wants.

Is: JSON or server-sent events over HTTP. Is not: any provider's rules. Above: the SDK tests.
Below: the standard library.
"""

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from pydantic import JsonValue

from toolrail_schemas import JsonObject


@dataclass(slots=True)
class Loopback:
    """What a test sees of the server."""

    url: str
    bodies: list[JsonObject] = field(default_factory=list[JsonObject])
    """As they came, in order."""
    answers: list[bytes] = field(default_factory=list[bytes])
    """What to say next, in order; events end in an empty line."""

    def say(self, answer: JsonObject) -> None:
        """The next request is answered with JSON."""
        self.answers.append(json.dumps(answer).encode())

    def stream(self, events: Sequence[JsonValue]) -> None:
        """The next request is answered with server-sent events, named by their `type`."""
        said = bytearray()
        for event in events:
            if isinstance(event, dict) and isinstance(event.get("type"), str):
                said += f"event: {event['type']}\n".encode()
            data = event if isinstance(event, str) else json.dumps(event)
            said += f"data: {data}\n\n".encode()
        self.answers.append(bytes(said))


@contextmanager
def loopback() -> Generator[Loopback]:
    """Give a server that is gone afterwards."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    port = server.server_address[1]
    known = Loopback(f"http://127.0.0.1:{port}")
    _KNOWN[port] = known
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        del _KNOWN[port]


_KNOWN: dict[int, Loopback] = {}


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """A test's output is its own."""
        del format, args

    def do_POST(self) -> None:
        """Keep the body, give the answer."""
        known = _KNOWN[self.connection.getsockname()[1]]
        raw = self.rfile.read(int(self.headers["content-length"]))
        known.bodies.append(cast("JsonObject", json.loads(raw)))
        said = known.answers.pop(0)
        kind = "text/event-stream" if said.endswith(b"\n\n") else "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
