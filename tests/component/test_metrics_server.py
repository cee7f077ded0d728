"""The small HTTP server beside every process: what it answers, and that nobody can hold it up.

Is: `toolrail.metrics.serve` over real sockets, and `toolrail health` that asks it. Is not: what is
counted. Above: nothing. Below: `toolrail.metrics`, `toolrail.cli`.
"""

import http.client
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from prometheus_client import CollectorRegistry, Counter

from tests.exposed import server_leftovers
from tests.waiting import wait_until
from toolrail.cli import health
from toolrail.metrics.serve import (
    CLIENTS_MAX,
    MetricsPortTaken,
    Server,
    serve,
    serve_beside,
)
from toolrail.settings import Settings, variable_of

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Process:
    """What a process tells its server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.counter = Counter("toolrail_tests", "Tests.", registry=self.registry)
        self.reason: str | None = None

    def is_ready(self) -> str | None:
        """Say what the test planted."""
        return self.reason


@pytest.fixture
def process() -> Process:
    """A process that is ready."""
    return Process()


@pytest.fixture
def server(process: Process) -> Iterator[Server]:
    """Its server, on any free port."""
    running = serve(process.registry, host="127.0.0.1", port=0, is_ready=process.is_ready)
    yield running
    running.close()


def ask(
    server: Server, path: str, *, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of one answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_metrics_come_in_the_format_that_was_asked_for(server: Server, process: Process) -> None:
    """Text for everybody, OpenMetrics for those who say so: only that carries exemplars."""
    process.counter.inc(3)

    plain = ask(server, "/metrics")
    open_metrics = ask(server, "/metrics", headers={"Accept": OPENMETRICS})

    assert plain[0] == open_metrics[0] == 200
    assert plain[1]["Content-Type"].startswith("text/plain")
    assert "toolrail_tests_total 3.0" in plain[2]
    assert open_metrics[1]["Content-Type"].startswith(OPENMETRICS)
    assert open_metrics[2].endswith("# EOF\n")


def test_a_process_that_answers_is_alive_and_says_why_it_is_not_ready(
    server: Server, process: Process
) -> None:
    """Alive and ready are two questions: not ready is no reason to be killed."""
    process.reason = "Redis is away."

    assert ask(server, "/healthz")[::2] == (200, "alive\n")
    assert ask(server, "/readyz")[::2] == (503, "Redis is away.\n")
    process.reason = None
    assert ask(server, "/readyz")[::2] == (200, "ready\n")


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/nothing"])
def test_head_has_the_headers_of_get_and_no_body(server: Server, path: str) -> None:
    """Load balancers ask with HEAD."""
    status, headers, body = ask(server, path, method="HEAD")
    expected, as_get, content = ask(server, path)

    assert (status, body) == (expected, "")
    assert headers["Content-Length"] == str(len(content.encode()))
    assert headers["Content-Type"] == as_get["Content-Type"]
    assert headers["Server"] == as_get["Server"] == "toolrail", "no version of ours or Python's"


def test_anything_else_is_refused_with_a_sentence(server: Server) -> None:
    """Who types the address by hand learns where to look."""
    status, _, body = ask(server, "/")
    assert status == 404
    assert "/metrics, /healthz and /readyz" in body

    status, headers, body = ask(server, "/metrics", method="POST")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert body == "Use GET or HEAD.\n"


def test_a_readiness_that_raises_is_not_readiness(process: Process) -> None:
    """A defect there ends in 503, not in an answer that looks fine."""

    def broken() -> str | None:
        raise RuntimeError

    server = serve(process.registry, host="127.0.0.1", port=0, is_ready=broken)

    assert ask(server, "/readyz")[0] == 503
    server.close()


def test_a_taken_port_is_told_and_stops_only_those_who_live_of_it(
    server: Server, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker works on without being watched; an exporter has nothing else to do."""
    with pytest.raises(MetricsPortTaken, match="TOOLRAIL_METRICS_PORT"):
        serve(process.registry, host="127.0.0.1", port=server.port, is_ready=process.is_ready)

    with caplog.at_level(logging.WARNING, "toolrail.metrics"):
        beside = serve_beside(
            process.registry, host="127.0.0.1", port=server.port, is_ready=process.is_ready
        )

    assert beside is None
    assert [record.message for record in caplog.records] == ["metrics.port_taken"]


def test_without_a_port_nothing_is_served(process: Process) -> None:
    """The default: a process opens no port that nobody asked for."""
    made = serve_beside(process.registry, host="127.0.0.1", port=None, is_ready=process.is_ready)

    assert made is None


def test_ipv6_is_served_where_the_machine_has_it(process: Process) -> None:
    """A host with a colon is an IPv6 address, and written in brackets to a scraper."""
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        server = serve(process.registry, host="::1", port=0, is_ready=process.is_ready)
    except MetricsPortTaken:
        pytest.skip("this machine has no IPv6 loopback")

    assert server.address == f"[::1]:{server.port}"
    server.close()


def test_many_scrapes_leave_no_thread_and_no_file_behind(server: Server) -> None:
    """A thousand scrapes cost what one costs."""
    files = psutil.Process().num_fds()
    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(ask, [server] * 1000, ["/metrics"] * 1000))

    assert {status for status, _, _ in answers} == {200}
    wait_until(lambda: not server_leftovers(server.port), "the server's threads to end")
    wait_until(lambda: psutil.Process().num_fds() <= files, "all files to be closed")


def test_clients_that_say_nothing_are_dropped_and_others_are_answered_meanwhile(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who fills the server's places with silence or single bytes loses them in bounded time."""
    monkeypatch.setattr("toolrail.metrics.serve.CLIENT_S", 0.2)
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(CLIENTS_MAX)]
    for each in silent:
        each.sendall(b"G")

    def is_answered() -> bool:
        try:
            return ask(server, "/healthz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    wait_until(is_answered, "an answer once the silent clients are gone")
    for each in silent:
        each.settimeout(5)
        assert each.recv(1) == b"", "it is closed, not left waiting"
        each.close()


def test_a_closed_server_frees_its_port_and_its_thread(process: Process) -> None:
    """Closing is complete, also with a client connected, and may be repeated."""
    server = serve(process.registry, host="127.0.0.1", port=0, is_ready=process.is_ready)
    with socket.create_connection(("127.0.0.1", server.port)):
        server.close()
    server.close()

    assert not [t for t in threading.enumerate() if t.name == "toolrail-metrics"]
    again = serve(process.registry, host="127.0.0.1", port=server.port, is_ready=process.is_ready)
    again.close()


def run_health(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `toolrail health` as a container would."""
    return subprocess.run(
        [sys.executable, "-m", "toolrail", "health", *options],
        env={f"TOOLRAIL_{name}": value for name, value in variables.items()},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_health_command_says_in_a_sentence_what_it_heard(
    server: Server, process: Process
) -> None:
    """Exit code 0 or 1, for a container's health check and for whoever reads its log."""
    process.reason = "Redis is away."
    port = str(server.port)

    alive = run_health(METRICS_PORT=port)
    ready = run_health("--ready", METRICS_PORT=port)
    anywhere = run_health(METRICS_PORT=port, METRICS_HOST="0.0.0.0")  # noqa: S104  # asked, not served

    assert (alive.returncode, alive.stdout, alive.stderr) == (0, "alive\n", "")
    assert (ready.returncode, ready.stdout, ready.stderr) == (1, "", "Redis is away.\n")
    assert anywhere.returncode == 0


def test_the_health_command_says_what_keeps_it_from_asking() -> None:
    """No port, nobody there, or somebody else: each is 1 and one sentence."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
    unset = run_health()
    nobody = run_health(METRICS_PORT=taken)

    assert (unset.returncode, nobody.returncode) == (1, 1)
    assert "TOOLRAIL_METRICS_PORT names no port" in unset.stderr
    assert "does not answer: Connection refused." in nobody.stderr


@pytest.mark.parametrize("answer", [b"", b"220 mail ready\r\n", b"HTTP/1.1 nonsense"])
def test_what_is_no_answer_is_an_error_and_not_health(answer: bytes) -> None:
    """Another program on the port is not taken for ours."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def speak() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(OSError, match="no web server"):
            health.ask("127.0.0.1", listening.getsockname()[1], "/healthz", deadline_s=2.0)
        thread.join()


def test_a_server_that_never_answers_costs_the_patience_and_no_more() -> None:
    """A health check that hangs would hide what it is there to show."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        pytest.raises(TimeoutError),
    ):
        health.ask("127.0.0.1", listening.getsockname()[1], "/healthz", deadline_s=0.05)


def test_the_health_command_knows_the_settings_by_their_right_names() -> None:
    """It spells them by hand, so this holds them together."""
    assert variable_of("metrics_port") == health.PORT
    assert variable_of("metrics_host") == health.HOST
    assert Settings().metrics_host == health.DEFAULT_HOST


def test_the_health_command_starts_without_any_library() -> None:
    """It runs every few seconds in every container."""
    code = (
        "import sys\n"
        "sys.argv = ['toolrail', 'health']\n"
        "from toolrail.cli.program import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'typer', 'pydantic', 'redis', 'prometheus_client', 'http', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
