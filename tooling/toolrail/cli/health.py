"""`toolrail health`: ask the process beside us whether it is alive, or ready.

Is: the health check of a container, which runs every few seconds, so that it imports nothing of
ours but the environment and no library at all. Is not: the server (`toolrail.metrics.serve`) or a
check of anything else (`doctor.py`).
Above: `program.py`, which runs it without the rest of the command line. Below: a socket.
"""

import socket
import sys
import time

from toolrail.cli.options import CommandExit
from toolrail.environment import environ

ALIVE, READY = "/healthz", "/readyz"
HOST, PORT = "TOOLRAIL_METRICS_HOST", "TOOLRAIL_METRICS_PORT"
"""Spelled by hand, since the settings cost ten times the rest; a test compares them."""
DEFAULT_HOST = "127.0.0.1"
WHOLE_S = 2.0
"""Patience for everything together."""
READ_BYTES = 4096
ANSWER_MAX_BYTES = 65_536
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # what is listened on, not by us


def health(*, ready: bool = False) -> None:
    """Ask the process that serves TOOLRAIL_METRICS_PORT here whether it is alive, or ready.

    Exit code 0: it is. 1: it is not, or does not answer within 2 s; one sentence says why.
    """
    raise CommandExit(check(READY if ready else ALIVE))


def check(path: str) -> int:
    """Return the exit code for the answer of `/healthz` or `/readyz`; one sentence is printed."""
    variables = environ()
    port = variables.get(PORT, "")
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        return _fail(f"{PORT} names no port, so there is nobody to ask. Set it, such as to 9464.")
    host = variables.get(HOST) or DEFAULT_HOST
    host = ANYWHERE.get(host, host)
    try:
        status, sentence = ask(host, int(port), path, deadline_s=WHOLE_S)
    except OSError as error:
        reason = error.strerror or str(error) or "no answer in time"
        return _fail(f"http://{host}:{port}{path} does not answer: {reason}.")
    if status != 200:
        return _fail(sentence or f"http://{host}:{port}{path} answered {status}.")
    sys.stdout.write(f"{sentence}\n")
    return 0


def ask(host: str, port: int, path: str, *, deadline_s: float) -> tuple[int, str]:
    """Return the status and the first line of the answer to one GET.

    Raises:
        OSError: No connection, or no whole answer in time (TimeoutError).
    """
    until = time.monotonic() + deadline_s
    with socket.create_connection((host, port), timeout=deadline_s) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        answer = b""
        while len(answer) < ANSWER_MAX_BYTES:
            connection.settimeout(max(until - time.monotonic(), 0.001))
            if not (block := connection.recv(READ_BYTES)):
                break
            answer += block
    head, _, body = answer.decode("utf-8", "replace").partition("\r\n\r\n")
    words = head.split(None, 2)
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdecimal():
        raise OSError("what answers there is no web server")
    return int(words[1]), body.strip().partition("\n")[0]


def _fail(sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return 1
