"""Show one process's metrics and health over HTTP, from a thread of its own.

Is: `/metrics`, `/healthz` and `/readyz`, with a bound on everything a client can do. Is not: what
is counted (`process.py`), nor whether a process is ready, which it is told.
Above: the worker, the exporter, any process of ours. Below: prometheus-client, wsgiref.

A thread, so that a process whose event loop is blocked still says so.
"""

import contextlib
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import make_wsgi_app  # pyright: ignore[reportUnknownVariableType]
from prometheus_client.registry import Collector

from toolrail.errors import ToolrailError

log = logging.getLogger(__name__)

IsReady = Callable[[], str | None]
"""Returns None, or the sentence that says why the process is not ready. Asked on a server thread,
so it looks at what is known and waits for nothing."""

Page = Callable[[], bytes]
"""Returns the text of `/metrics` at once, for one that takes too long to make within a scrape."""
PAGE_TYPE = "text/plain; version=0.0.4; charset=utf-8"

CLIENTS_MAX = 16
"""Connections at once; one more is closed unanswered. Prometheus and a health check make two."""
CLIENT_S = 5.0
"""The longest life of a connection, however slowly its client sends or reads."""
POLL_S = 0.25
"""How often the server looks for its own end and for clients that took too long."""
BACKLOG = 64
ANYWHERE = ("0.0.0.0", "::")  # noqa: S104  # what an operator may choose
PATHS = "/metrics, /healthz and /readyz"


class MetricsPortTaken(ToolrailError):
    """Nobody can listen on the port for metrics. Free it, or set TOOLRAIL_METRICS_PORT."""

    code = "metrics.port_taken"


class Server:
    """A running server; `close` ends it."""

    def __init__(self, http: "_HttpServer") -> None:
        self._http = http
        self._thread = threading.Thread(
            target=http.serve_forever, args=(POLL_S,), name="toolrail-metrics", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on, also when any free one was asked for."""
        return self._http.server_port

    @property
    def address(self) -> str:
        """`host:port`, as a scraper on this machine or network reaches it."""
        host = self._http.server_name
        if host in ANYWHERE:
            host = socket.gethostname()
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def close(self) -> None:
        """Stop listening and drop who is connected, within half a second; may be called twice."""
        self._http.shutdown()
        self._http.server_close()
        self._http.drop_clients(older_than_s=0.0)
        self._thread.join()


def serve(registry: Collector | Page, *, host: str, port: int, is_ready: IsReady) -> Server:
    """Return a server that answers from now on.

    Args:
        registry: What `/metrics` shows, or its text made beforehand. Collecting it must not wait
            for another process.
        host: Address to listen on, such as 127.0.0.1.
        port: 0 takes any free one.
        is_ready: What `/readyz` says.

    Raises:
        MetricsPortTaken: Nobody can listen there: taken, not ours, or no address of this machine.
    """
    try:
        http = _HttpServer(host, port, _application(registry, is_ready))
    except OSError as error:
        raise MetricsPortTaken(
            f"Cannot listen on {host}:{port} for metrics: {error.strerror or error}. "
            "Free the port, or set TOOLRAIL_METRICS_PORT to another one; 0 takes any."
        ) from error
    return Server(http)


def serve_beside(
    registry: Collector,
    *,
    host: str,
    port: int | None,
    is_ready: IsReady,
    is_told: bool = True,
) -> Server | None:
    """Return what `serve` does; None, with a line in the log, when the port cannot be had.

    For processes whose work is something else and goes on without being watched.

    Args:
        registry: As for `serve`.
        host: As for `serve`.
        port: None: no server is wanted.
        is_ready: As for `serve`.
        is_told: Log where it listens; not of a server that soon makes room for another.
    """
    if port is None:
        return None
    try:
        server = serve(registry, host=host, port=port, is_ready=is_ready)
    except MetricsPortTaken as error:
        log.warning("metrics.port_taken", extra={"reason": error.message})
        return None
    if is_told:
        log.info("metrics.served", extra={"address": server.address})
    return server


def _application(registry: Collector | Page, is_ready: IsReady) -> WSGIApplication:
    metrics = _page(registry) if callable(registry) else _collected(registry)

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            allow = ("Allow", "GET, HEAD")
            return _text(start_response, "405 Method Not Allowed", "Use GET or HEAD.", allow)
        match environ["PATH_INFO"]:
            case "/metrics":
                return metrics(environ, start_response)
            case "/healthz":
                return _text(start_response, "200 OK", "alive")
            case "/readyz":
                reason = _reason(is_ready)
                if reason is None:
                    return _text(start_response, "200 OK", "ready")
                return _text(start_response, "503 Service Unavailable", reason)
            case _:
                return _text(start_response, "404 Not Found", f"Nothing here; there is {PATHS}.")

    return _head_like_get(answer)


def _collected(registry: Collector) -> WSGIApplication:
    return cast("WSGIApplication", make_wsgi_app(registry))


def _page(page: Page) -> WSGIApplication:
    def answer(_environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        body = page()
        headers = [("Content-Type", PAGE_TYPE), ("Content-Length", str(len(body)))]
        start_response("200 OK", headers)
        return [body]

    return answer


def _reason(is_ready: IsReady) -> str | None:
    try:
        return is_ready()
    except Exception:
        # The edge: a defect there must not look like readiness.
        log.exception("metrics.readiness_unknown")
        return "The process could not tell whether it is ready."


def _text(
    start_response: StartResponse, status: str, sentence: str, *headers: tuple[str, str]
) -> Iterable[bytes]:
    body = f"{sentence}\n".encode()
    # Readiness is of this moment; a proxy that keeps it would lie.
    usual = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
    start_response(status, [*usual, *headers])
    return [body]


def _head_like_get(get: WSGIApplication) -> WSGIApplication:
    """Answer HEAD with the headers of GET, and either without the versions of what runs here."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        told: list[tuple[str, list[tuple[str, str]]]] = []

        def keep(status: str, headers: list[tuple[str, str]], _error: object = None) -> Any:
            told.append((status, headers))

        is_head = environ["REQUEST_METHOD"] == "HEAD"
        asked: WSGIEnvironment = {**environ, "REQUEST_METHOD": "GET"} if is_head else environ
        body = b"".join(get(asked, keep))
        ((status, headers),) = told
        ours = [("Server", "toolrail"), ("Content-Length", str(len(body)))]
        start_response(status, [*headers, *ours])
        return [] if is_head else [body]

    return answer


class _Handler(WSGIRequestHandler):
    """One request of one connection: no body is read, and no second request waited for."""

    timeout = CLIENT_S

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a scrape every few seconds is no event."""


class _HttpServer(socketserver.ThreadingMixIn, WSGIServer):
    """A thread per connection, at most `CLIENTS_MAX`, none for longer than `CLIENT_S`."""

    daemon_threads = True
    request_queue_size = BACKLOG

    def __init__(self, host: str, port: int, application: WSGIApplication) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._clients: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__((host, port), _Handler)
        self.set_app(application)

    def server_bind(self) -> None:
        """Bind without the look-up of the host's name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a new thread, unless too many are at it."""
        with self._lock:
            is_full = len(self._clients) >= CLIENTS_MAX
            if not is_full:
                self._clients[request] = time.monotonic()
        if is_full:
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection, answered or not."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Drop who took too long; called on the server's thread every `POLL_S`."""
        self.drop_clients(older_than_s=CLIENT_S)

    def drop_clients(self, *, older_than_s: float) -> None:
        """Shut connections of that age; their threads then end by themselves."""
        latest = time.monotonic() - older_than_s
        with self._lock:
            # Under the lock, so that no thread closes it meanwhile and its number is another's.
            for request, since in self._clients.items():
                if since <= latest:
                    _shut(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note a connection that broke; nobody but its client can do anything."""
        log.debug("metrics.connection_broke")


def _shut(request: socket.socket) -> None:
    # It may be gone already.
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
