"""What happens to the stack, and what must be seen: the smoke test's script.

Is: the order of deeds and the checks after each. Is not: how a deed is done (`stack.py`).
Above: `__main__.py`. Below: `stack.py`.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from tests.smoke.stack import PROJECT, Stack, Told
from tests.waiting import wait_until
from toolrail.ledger import unaccounted

CELL = ("redis", "worker-builtin", "worker-mcp", "worker-extension", "exporter")
WATCH = ("prometheus", "alertmanager")
FIRST_EFFECTS = 40
MORE_EFFECTS = 30
REFUSED = ("flushall", "config get *", "keys *", "shutdown nosave")
SCRAPED_S = 60.0
OF_OUTAGE = {"tool.outcome_unknown", "extension.unavailable", "extension.overloaded"}


@dataclass
class Finding:
    """One thing that was promised, and what was seen."""

    promise: str
    seen: str
    holds: bool


@dataclass
class Story:
    """The script, and what it found."""

    stack: Stack
    say: Callable[[str], None]
    clock: Callable[[], datetime]
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def broken(self) -> list[Finding]:
        """What did not hold."""
        return [finding for finding in self.findings if not finding.holds]

    def check(self, promise: str, *, seen: object, holds: bool) -> None:
        """Note what was seen."""
        self.findings.append(Finding(promise, str(seen), holds))
        mark = "holds " if holds else "BROKEN"
        self.say(f"  {self.clock():%H:%M:%S} {mark} {promise} ({seen})")

    def play(self) -> None:
        """Everything, in order."""
        self._start()
        self._look_into_containers()
        self._look_at_redis()
        first = self._drain_under_load()
        second = self._restart_redis_under_load()
        self._watch(first.calls + second.calls)
        self._look_after()

    def _start(self) -> None:
        self.say("The stack goes up.")
        begun = time.monotonic()
        self.stack.up(*CELL, *WATCH, "extension")
        self.stack.wait_healthy(*CELL, *WATCH)
        self.check(
            "Every service becomes healthy by its own check.",
            seen=f"{len(CELL) + len(WATCH)} in {time.monotonic() - begun:.0f} s",
            holds=True,
        )

    def _look_into_containers(self) -> None:
        self.say("What a container may do.")
        for service in (*CELL, *WATCH):
            [container] = self.stack.containers(service)
            status = self.stack.inside(container.name, "cat", "/proc/1/status").stdout
            uid = re.findall(r"^Uid:\s+(\d+)", status, re.M)
            powers = set(re.findall(r"^Cap(?:Eff|Prm|Bnd):\s+(\w+)", status, re.M))
            locked = "NoNewPrivs:\t1" in status
            written = self.stack.inside(container.name, "touch", "/written")
            self.check(
                f"{service} is nobody: no root, no capability, no write to its root.",
                seen=f"uid {uid[0]}, capabilities {'/'.join(powers)}, {written.stderr.strip()}",
                holds=uid != ["0"]
                and powers == {"0" * 16}
                and locked
                and "Read-only file system" in written.stderr,
            )
        self._look_for_secrets()

    def _look_for_secrets(self) -> None:
        folder = self.stack.compose / "secrets"
        secrets = {
            file.read_text(encoding="utf-8").strip()
            for file in folder.iterdir()
            if file.name.endswith(("_password", "_secret"))
        }
        shown = "".join(
            json.dumps(self.stack.inspect(container.name))
            for service in (*CELL, *WATCH, "extension")
            for container in self.stack.containers(service)
        )
        found = sum(secret in shown for secret in secrets)
        self.check(
            "No secret is in what the engine shows of a container.",
            seen=f"{found} of {len(secrets)} in {len(shown)} characters",
            holds=len(secrets) == 7 and not found,
        )

    def _look_at_redis(self) -> None:
        answers = [self.stack.redis("exporter", *line.split(" ")) for line in REFUSED]
        anonymous = self.stack.inside(f"{PROJECT}-redis-1", "redis-cli", "ping").stdout
        self.check(
            "Redis refuses what would hurt, and everything to those without a name.",
            seen=f"{len(answers)} x NOPERM, {anonymous.strip()}",
            holds=all(answer.startswith("NOPERM") for answer in answers)
            and anonymous.startswith("NOAUTH"),
        )

    def _drain_under_load(self) -> Told:
        self.say("An agent calls tools of all three sources; workers come and go by SIGTERM.")
        self.stack.start_load()
        self.stack.wait_effects(FIRST_EFFECTS)
        self._scale_out()
        for service, tool in (
            ("worker-mcp", "mcp.smoke.append"),
            ("worker-builtin", "smoke.append"),
            ("worker-extension", "ext.smoke.append"),
        ):
            self._drain(service, tool)
        self._scale_in()
        self.stack.wait_effects(MORE_EFFECTS)
        told = self.stack.end_load()
        self.check(
            "Every call was answered, and none with an error.",
            seen=f"{len(told.done)} of {told.calls}, errors {told.errors or 'none'}, "
            f"slowest {told.slowest_s:.0f} s",
            holds=len(told.done) == told.calls and not told.errors,
        )
        self._count_effects(told)
        self._balance(told.calls)
        return told

    def _restart_redis_under_load(self) -> Told:
        """What was on its way when Redis went may be unknown, and then says so."""
        self.say("The same, and Redis restarts; Compose then restarts the workers.")
        self.stack.start_load()
        self.stack.wait_effects(FIRST_EFFECTS)
        # With the time that workers need, for podman kills after ten seconds where Docker waits as
        # long as the service says.
        self.stack.run_compose("restart", "--timeout", "330", "redis")
        self.stack.wait_healthy(*CELL)
        self.stack.wait_effects(MORE_EFFECTS)
        told = self.stack.end_load()
        codes = {name.rpartition(" ")[2] for name in told.errors}
        self.check(
            "Every call was answered; an error is one that names the outage.",
            seen=f"{len(told.done)} of {told.calls}, errors {told.errors or 'none'}, "
            f"slowest {told.slowest_s:.0f} s",
            holds=codes <= OF_OUTAGE,
        )
        self._count_effects(told)
        return told

    def _count_effects(self, told: Told) -> None:
        lines = self.stack.lines(told.run_id)
        doubled = sum(n > 1 for n in lines.values())
        missing = len(set(told.done) - lines.keys())
        unknown = len(lines.keys() - set(told.done))
        self.check(
            "Every effect happened once: none lost, none twice.",
            seen=f"{lines.total()} effects of {told.calls} calls, {missing} missing, "
            f"{doubled} doubled, {unknown} of calls with an error",
            holds=not missing and not doubled and unknown <= told.errors_in_all,
        )
        self.check(
            "The run's journal has no gap, and the run is completed.",
            seen=f"{told.events} events, {told.status}",
            holds=told.gapless and told.status == "completed",
        )

    def _balance(self, calls: int) -> None:
        totals = self.stack.totals()
        accepted = sum(n for name, n in totals.items() if name.startswith("accepted:"))
        self.check(
            "The ledger accounts for every call: accepted = finished + open.",
            seen=f"accepted {accepted}, unaccounted {unaccounted(totals)}",
            holds=accepted == calls and unaccounted(totals) == 0,
        )

    def _scale_out(self) -> None:
        self.stack.up("worker-mcp", scale="worker-mcp=3")
        self.stack.wait_healthy("worker-mcp", count=3)
        self.stack.wait_effects(MORE_EFFECTS, prefix="mcp.")
        self.check(
            "`--scale worker-mcp=3` gives three healthy workers.",
            seen=", ".join(each.name for each in self.stack.containers("worker-mcp")),
            holds=True,
        )

    def _drain(self, service: str, tool: str) -> None:
        """SIGTERM to all workers of a source at once; they come back to a queue that waits."""
        count = len(self.stack.containers(service))
        running = self.stack.running_calls()
        begun = time.monotonic()
        self.stack.run_compose("stop", service)
        took_s = time.monotonic() - begun
        codes = [container.exit_code for container in self.stack.containers(service)]
        self.stack.up(service, scale=f"{service}={count}")
        self.stack.wait_healthy(service, count=count)
        self.stack.wait_effects(MORE_EFFECTS, prefix=tool)
        self.check(
            f"SIGTERM under load: {service} drains, ends with 0, and comes back.",
            seen=f"{running} calls running, {took_s:.1f} s, exit codes {codes}",
            holds=codes == [0] * count and running > 0,
        )

    def _scale_in(self) -> None:
        self.stack.up("worker-mcp", scale="worker-mcp=1")
        self.stack.wait_healthy("worker-mcp")
        self.stack.wait_effects(MORE_EFFECTS, prefix="mcp.")
        self.check("Scaling down under load leaves one healthy worker.", seen="1", holds=True)

    def _watch(self, calls: int) -> None:
        self.say("What Prometheus saw.")
        self._balance(calls)
        wait_until(lambda: self._finished() == calls, "a scrape", timeout_s=SCRAPED_S)
        wait_until(lambda: self._targets() == ["up"] * 5, "all targets", timeout_s=SCRAPED_S)
        self.check(
            "Prometheus scrapes workers, exporter and itself, and counts what the agent did.",
            seen=f"{len(self._targets())} targets up, {calls} finished calls",
            holds=True,
        )
        self.check(
            "No call is unaccounted for, by the metric that alerts.",
            seen=self._query("toolrail_calls_unaccounted"),
            holds=self._query("toolrail_calls_unaccounted") == 0,
        )

    def _targets(self) -> list[str]:
        text = self.stack.fetch("http://prometheus:9090/api/v1/targets?state=active")
        targets = cast("list[dict[str, object]]", json.loads(text)["data"]["activeTargets"])
        return [str(target["health"]) for target in targets]

    def _finished(self) -> float | None:
        return self._query("sum(toolrail_calls_finished_total)")

    def _query(self, expression: str) -> float | None:
        text = self.stack.fetch(f"http://prometheus:9090/api/v1/query?query={expression}")
        found = cast("list[dict[str, list[object]]]", json.loads(text)["data"]["result"])
        return float(str(found[0]["value"][1])) if found else None

    def _look_after(self) -> None:
        size = self.stack.inside(
            f"{PROJECT}-redis-1", "sh", "-c", "sh /etc/redis/backup.sh 2>/dev/null | wc -c"
        ).stdout
        doctor = self.stack.cli("doctor")
        problems = [line for line in doctor.splitlines() if line.startswith("problem")]
        self.check(
            "A backup is taken from the running server.",
            seen=f"{size.strip()} bytes",
            holds=int(size) > 1000,
        )
        self.check(
            "`toolrail doctor` finds no problem.", seen=problems or "none", holds=not problems
        )
