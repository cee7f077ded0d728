"""The stack of `compose/`, up in an engine, and what can be asked of it.

Is: Compose's commands, looks into containers, the effects of tools. Is not: what should be seen
(`story.py`). Above: `story.py`. Below: `engine.py`, `docker-compose`.
"""

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from pydantic import BaseModel

from tests.compose_files import COMPOSE, program
from tests.smoke.engine import Engine, run
from tests.smoke.images import OURS, stand_in
from tests.sources import ROOT
from tests.waiting import wait_until

HERE = Path(__file__).parent
PROJECT = "toolrail"
SOURCES = ("builtin", "mcp", "extension")
UP_S = 120.0
URL_FILE = "url_file:"
FETCH = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read().decode())"


class Told(BaseModel):
    """What the agent saw in one run."""

    run_id: str
    calls: int
    done: list[str]
    errors: dict[str, int]
    slowest_s: float
    events: int
    gapless: bool
    status: str

    @property
    def errors_in_all(self) -> int:
        """How many calls ended with an error."""
        return sum(self.errors.values())


class Container(BaseModel):
    """One container, running or not."""

    name: str
    state: str
    health: str
    exit_code: int


class Stack:
    """The services of compose.yaml and those that the smoke test adds."""

    def __init__(self, engine: Engine, *, per_s: float) -> None:
        self.engine = engine
        self.effects = engine.folder / "effects"
        self.compose = engine.folder / "compose"
        self._per_s = per_s

    def prepare(self) -> None:
        """The project's files stand in the engine's folder, with secrets of their own."""
        ignored = shutil.ignore_patterns("secrets", "receivers")
        shutil.copytree(COMPOSE, self.compose, ignore=ignored)
        (self.compose / "secrets").mkdir()
        shutil.copy(COMPOSE / "secrets" / "make.sh", self.compose / "secrets")
        run("sh", self.compose / "secrets" / "make.sh")
        self._suit_old_alertmanager()
        self.effects.mkdir()
        self.effects.chmod(0o1777)
        # Containers have users of their own, and reach what is mounted through this folder.
        self.engine.folder.chmod(0o711)
        lines = {
            "TOOLRAIL_IMAGE": OURS,
            "REDIS_IMAGE": stand_in("redis"),
            "PROMETHEUS_IMAGE": stand_in("prometheus"),
            "ALERTMANAGER_IMAGE": stand_in("alertmanager"),
            "COMPOSE_PROFILES": "monitoring",
            "MCP_SERVERS_FILE": HERE / "srv" / "mcp.json",
            "POLICY_DIR": ROOT / "tooling" / "toolrail" / "policy" / "defaults",
            "SMOKE_SRV": HERE / "srv",
            "SMOKE_EFFECTS": self.effects,
            "SMOKE_PER_S": self._per_s,
        }
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        (self.compose / ".env").write_text(text, encoding="utf-8")
        shutil.copy(HERE / "compose.smoke.yaml", self.compose)

    def _suit_old_alertmanager(self) -> None:
        """Debian's knows no file with an address; the address itself leads nowhere."""
        file = self.compose / "alertmanager" / "alertmanager.yml"
        lines = file.read_text(encoding="utf-8").splitlines()
        nowhere = 'url: "http://127.0.0.1:9/"'
        suited = [
            line[: line.index(URL_FILE)] + nowhere if URL_FILE in line else line for line in lines
        ]
        file.write_text("\n".join(suited) + "\n", encoding="utf-8")

    def run_compose(self, *words: str) -> str:
        """Return what a Compose command printed.

        Raises:
            CalledProcessError: It failed.
        """
        files = ("-f", "compose.yaml", "-f", "compose.smoke.yaml")
        return run(
            program("docker-compose"),
            *files,
            *words,
            cwd=self.compose,
            env=self.engine.environment,
        )

    def up(self, *services: str, scale: str = "") -> None:
        """The services run; what runs already is left as it is.

        Podman names a network where Docker gives its id, so that Compose would take every
        container for outdated.
        """
        scaled = ("--scale", scale) if scale else ()
        words = ("up", "--detach", "--no-recreate", "--no-build", "--pull", "never")
        self.run_compose(*words, *scaled, *services)

    def wait_healthy(self, *services: str, count: int = 1) -> None:
        """Return when each service has so many containers, all healthy."""

        def healthy() -> bool:
            for service in services:
                states = [(each.state, each.health) for each in self.containers(service)]
                if states.count(("running", "healthy")) != count or len(states) != count:
                    return False
            return True

        wait_until(healthy, f"{count} healthy of {', '.join(services)}", timeout_s=UP_S)

    def containers(self, service: str) -> list[Container]:
        """Return the containers of a service."""
        label = f"label=com.docker.compose.service={service}"
        ids = self.engine.podman("ps", "--all", "--quiet", "--filter", label).split()
        found = [self.inspect(container_id) for container_id in ids]
        return sorted(
            (
                Container(
                    name=str(each["Name"]),
                    state=str(state["Status"]),
                    health=str(
                        cast("Mapping[str, object]", state.get("Health") or {}).get("Status")
                    ),
                    exit_code=int(str(state["ExitCode"])),
                )
                for each in found
                for state in [cast("Mapping[str, object]", each["State"])]
            ),
            key=lambda container: container.name,
        )

    def inspect(self, container: str) -> Mapping[str, object]:
        """Return all that the engine knows about a container."""
        text = self.engine.podman("inspect", "--type", "container", container)
        [found] = cast("list[Mapping[str, object]]", json.loads(text))
        return found

    def inside(self, container: str, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in a container."""
        return subprocess.run(
            self.engine.command("exec", container, *words),
            env=self.engine.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def redis(self, role: str, *words: str) -> str:
        """Return what Redis says to a role."""
        return self.inside(f"{PROJECT}-redis-1", "sh", "/etc/redis/cli.sh", role, *words).stdout

    def totals(self) -> dict[str, int]:
        """Return the ledger's counts."""
        words = self.redis("exporter", "hgetall", "toolrail:totals").split()
        return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}

    def running_calls(self) -> int:
        """Return how many calls hold a lease now."""
        return int(self.redis("exporter", "zcard", "toolrail:leases"))

    def fetch(self, url: str) -> str:
        """Return a page, as the exporter's container sees it."""
        done = self.inside(f"{PROJECT}-exporter-1", "python", "-c", FETCH, url)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lines(self, run_id: str = "") -> Counter[str]:
        """Return how often each effect of a run, or of all, happened."""
        seen: Counter[str] = Counter()
        for source in SOURCES:
            file = self.effects / f"{source}.log"
            if file.exists():
                lines = file.read_text(encoding="utf-8").splitlines()
                seen.update(line for line in lines if line.endswith(run_id))
        return seen

    def wait_effects(self, more: int, *, prefix: str = "") -> None:
        """Return when so many more effects of a tool have happened."""

        def count() -> int:
            return sum(line.startswith(prefix) for line in self.lines())

        enough = count() + more
        wait_until(lambda: count() >= enough, f"{more} more of {prefix or 'all'}", timeout_s=UP_S)

    def start_load(self) -> None:
        """An agent calls tools of all sources, in a run of its own."""
        for name in ("stop", "agent.started", "agent.json"):
            (self.effects / name).unlink(missing_ok=True)
        self.up("agent")
        wait_until((self.effects / "agent.started").exists, "the agent", timeout_s=UP_S)

    def end_load(self) -> Told:
        """The agent has ended; return what it saw."""
        (self.effects / "stop").touch()
        file = self.effects / "agent.json"
        wait_until(file.exists, "the agent's end", timeout_s=UP_S)
        [agent] = self.containers("agent")
        self.engine.podman("wait", agent.name)
        return Told.model_validate_json(file.read_text(encoding="utf-8"))

    def cli(self, *words: str) -> str:
        """Return what `toolrail` says in a container of its own; the service must not be up.

        Detached, since Compose and podman do not agree on when an attached one has ended.
        """
        options = ("--detach", "--no-deps", "--name", "cli")
        self.run_compose("run", *options, "cli", *words)
        self.engine.podman("wait", "cli")
        said = self.engine.podman("logs", "cli")
        self.engine.podman("rm", "cli")
        return said

    def logs(self, service: str, *, tail: int = 30) -> str:
        """Return the last lines of a service."""
        return self.run_compose("logs", "--no-color", "--tail", str(tail), service)
