"""Run a private RabbitMQ node as a child process.

Is: a node of its own name, ports, data folder and Erlang port mapper, from the distribution's
`rabbitmq-server` package, without its service and without root. Is not: tuned.
Above: `tests/servers.py`. Below: `epmd` and `rabbitmq-server`.
"""

import contextlib
import shutil
import socket
import subprocess
from pathlib import Path

import amqp

from tests.waiting import wait_until
from toolrail.embedded import end_with_parent
from toolrail.settings import safe_environment

# One scheduler that does not spin, for the tests need the other cores; no listening off loopback.
ERLANG_OPTIONS = "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}"
# Debian's command of this name switches users; the script behind it does not.
SCRIPTS = (Path("/usr/lib/rabbitmq/bin/rabbitmq-server"), Path("/usr/sbin/rabbitmq-server"))
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0


class RabbitNode:
    """One broker node on loopback; user and password are `guest`."""

    def __init__(self, directory: Path, *, script: Path, epmd: Path) -> None:
        self.directory = directory
        self._script = script
        self._epmd = epmd
        self._port, self._node_port, self._epmd_port = free_ports(3)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """The kombu URL of the default virtual host."""
        return f"amqp://guest:guest@127.0.0.1:{self._port}//"

    def start(self) -> None:
        """Return once the node answers; fail the test run with its last words otherwise."""
        self._run([self._epmd, "-port", str(self._epmd_port), "-address", "127.0.0.1"])
        node = self._run([self._script])

        def answers() -> bool:
            if node.poll() is not None:
                words = (self.directory / "output.log").read_text(encoding="utf-8")[-2000:]
                raise RuntimeError(f"rabbitmq-server ended with {node.returncode}:\n{words}")
            with contextlib.suppress(OSError, amqp.AMQPError), self.connect():
                return True
            return False

        wait_until(answers, "RabbitMQ answers", timeout_s=START_TIMEOUT_S)

    def connect(self) -> amqp.Connection:
        """Return a connection, to be closed by the caller."""
        connection = amqp.Connection(f"127.0.0.1:{self._port}", connect_timeout=5)
        connection.connect()
        return connection

    def delete_queues(self, names: tuple[str, ...]) -> None:
        """Forget the named queues and what is in them."""
        with self.connect() as connection:
            for name in names:
                connection.channel().queue_delete(name)

    def stop(self) -> None:
        """End the node, then its port mapper."""
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            try:
                process.wait(timeout=STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, command: list[str | Path]) -> subprocess.Popen[bytes]:
        with (self.directory / "output.log").open("ab") as output:
            process = subprocess.Popen(
                end_with_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=self._environment(),
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        folder = str(self.directory)
        return safe_environment() | {
            "HOME": folder,  # keeps the node's cookie apart from everybody else's
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"toolrail{self._port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_CONFIG_FILES": folder,
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG_OPTIONS,
            # The script then becomes the node instead of staying its parent.
            "RUNNING_UNDER_SYSTEMD": "true",
        }


def find_rabbit() -> tuple[Path, Path] | None:
    """Return the server script and `epmd`, None when they are not installed."""
    script = next((path for path in SCRIPTS if path.exists()), None)
    epmd = shutil.which("epmd")
    return None if script is None or epmd is None else (script, Path(epmd))


def free_ports(count: int) -> list[int]:
    """Return free ports of loopback, all different."""
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        for _ in range(count):
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(int(probe.getsockname()[1]))
        return ports
