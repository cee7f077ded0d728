"""Start Prometheus and Alertmanager with the committed files, and receive what they send.

Is: the configuration of `compose/`, with addresses of this machine and a quicker clock. Is not:
rules or thresholds of our own, but for `Haste`, which shortens times and nothing else.
Above: the live tests. Below: the packages prometheus and prometheus-alertmanager.
"""

import contextlib
import json
import math
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import yaml

from tests.dashboards import ALERTMANAGER, PROMETHEUS, load_yaml
from tests.rabbit import free_ports
from tests.servers import absent
from tests.waiting import wait_until
from toolrail.embedded import end_with_parent
from toolrail.settings import safe_environment
from toolrail_schemas import JsonObject

START_S = 30.0
ANSWER_S = 10.0
STOP_S = 10.0


@dataclass(frozen=True)
class Series:
    """One line of a panel."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]
    """Unix seconds and value; NaN is left out, as Grafana leaves a gap."""

    @property
    def peak(self) -> float:
        """The largest magnitude of all points."""
        return max((abs(value) for _, value in self.points), default=0.0)

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


@dataclass(frozen=True)
class Haste:
    """Makes `for` and the ages that alert shorter, so that a test need not wait for hours.

    What is compared stays as it is; promtool tests the real times.
    """

    age_s: int = 5
    for_s: int = 2

    def apply(self, rules: str) -> str:
        """Return the rules with shorter times."""
        rules = re.sub(r"\bfor: \d+[sm]\b", f"for: {self.for_s}s", rules)
        aged = re.compile(r"(_age_seconds\)|_timestamp_seconds\)) > \d+")
        return aged.sub(rf"\1 > {self.age_s}", rules)


class Program:
    """A server of others, as a child that ends with this process."""

    def __init__(self, name: str, package: str, directory: Path) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self._program = shutil.which(name) or absent(f"apt-get install {package}")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def run(self, *arguments: str) -> None:
        """Return once the server says that it is ready."""
        with (self.directory / "log").open("ab") as log:
            self._process = process = subprocess.Popen(
                end_with_parent([self._program, *arguments]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=safe_environment(),
                start_new_session=True,
            )

        def is_ready() -> bool:
            if process.poll() is not None:
                raise RuntimeError((self.directory / "log").read_text(encoding="utf-8")[-2000:])
            with contextlib.suppress(OSError):
                self.get("/-/ready")
                return True
            return False

        wait_until(is_ready, f"{self._program} is ready", timeout_s=START_S)

    def get(self, path: str, **query: str | float) -> bytes:
        """Return the answer to a request.

        Raises:
            OSError: It does not answer, or not with 200.
        """
        url = f"http://{self.address}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
            return cast("bytes", answer.read())

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


class Prometheus(Program):
    """A real server that scrapes every second."""

    def __init__(self, directory: Path, *, alertmanager: str = "", haste: Haste | None) -> None:
        super().__init__("prometheus", "prometheus", directory)
        rules = directory / "rules"
        shutil.copytree(PROMETHEUS / "rules", rules)
        for file in rules.iterdir():
            text = re.sub(r"^    interval: \w+$", "", file.read_text("utf-8"), flags=re.MULTILINE)
            file.write_text(text if haste is None else haste.apply(text), encoding="utf-8")
        (directory / "sd").mkdir()
        self._write_config(alertmanager)

    def _write_config(self, alertmanager: str) -> None:
        config = load_yaml(PROMETHEUS / "prometheus.yml")
        times = ("scrape_interval", "scrape_timeout", "evaluation_interval")
        config["global"] = dict.fromkeys(times, "1s")
        told = [{"static_configs": [{"targets": [alertmanager]}]}] if alertmanager else []
        config["alerting"] = cast("JsonObject", {"alertmanagers": told})
        for job in cast("list[dict[str, object]]", config["scrape_configs"]):
            name = str(job["job_name"])
            job.clear()
            files = [f"sd/{name}.json"]
            job |= {"job_name": name}
            job["file_sd_configs"] = [{"files": files, "refresh_interval": "1s"}]
        self.aim("prometheus", [self.address])
        file = self.directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")

    def start(self) -> None:
        """Return once it answers."""
        self.run(
            f"--config.file={self.directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address={self.address}",
            "--log.level=warn",
        )

    def aim(self, job: str, addresses: list[str]) -> None:
        """Let a job scrape these from the next second on."""
        file = self.directory / "sd" / f"{job}.json"
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps([{"targets": addresses}]), encoding="utf-8")
        fresh.replace(file)

    def query(self, expression: str, *, at: float | None = None) -> list[Series]:
        """Return what an expression is now, or at an instant."""
        when = {} if at is None else {"time": at}
        result = self._ask("/api/v1/query", query=expression, **when)
        return [_series(one, "value") for one in result]

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """Return what an expression was, step by step; series of nothing but NaN are left out."""
        times = {"start": start, "end": end, "step": step}
        result = self._ask("/api/v1/query_range", query=expression, **times)
        found = [_series(one, "values") for one in result]
        return [series for series in found if series.points]

    def value(self, expression: str) -> float | None:
        """Return the one value of an expression; None when it has no series."""
        found = self.query(expression)
        return found[0].last if found and found[0].points else None

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        found = self.query('ALERTS{alertstate="firing"}')
        return {series.labels["alertname"] for series in found}

    def _ask(self, path: str, **query: str | float) -> list[dict[str, object]]:
        answer = cast("dict[str, dict[str, object]]", json.loads(self.get(path, **query)))
        return cast("list[dict[str, object]]", answer["data"]["result"])


def _series(raw: dict[str, object], key: str) -> Series:
    points = cast("list[tuple[float, str]]", [raw[key]] if key == "value" else raw[key])
    numbers = [(float(at), float(text)) for at, text in points]
    kept = tuple((at, value) for at, value in numbers if not math.isnan(value))
    return Series(cast("dict[str, str]", raw["metric"]), kept)


class Receiver:
    """The webhook that alerts arrive at; the path of a request is the receiver's name."""

    def __init__(self) -> None:
        self.notices: list[tuple[str, JsonObject]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                notice = cast("JsonObject", json.loads(self.rfile.read(length)))
                receiver.notices.append((self.path.strip("/"), notice))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens, without the receiver's name."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def told(self, alert: str, status: str) -> list[str]:
        """Return the receivers that were told of an alert, once per notice."""
        return [
            receiver
            for receiver, notice in self.notices
            for one in cast("list[dict[str, dict[str, str]]]", notice["alerts"])
            if one["labels"]["alertname"] == alert and cast("str", one["status"]) == status
        ]

    def stop(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Alertmanager(Program):
    """A real one, with the committed routes and inhibitions, and shorter waits."""

    def __init__(self, directory: Path, receiver: Receiver) -> None:
        super().__init__("prometheus-alertmanager", "prometheus-alertmanager", directory)
        text = ALERTMANAGER.read_text(encoding="utf-8")
        # Debian's is older than `url_file`.
        text = re.sub(r"url_file: \S+/(\w+)", rf'url: "{receiver.url}/\1"', text)
        text = re.sub(r"(group_wait|group_interval): \w+", r"\1: 1s", text)
        (directory / "alertmanager.yml").write_text(text, encoding="utf-8")

    def start(self) -> None:
        """Return once it answers."""
        self.run(
            f"--config.file={self.directory / 'alertmanager.yml'}",
            f"--storage.path={self.directory / 'data'}",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
            "--log.level=warn",
        )


def now() -> float:
    """Return the clock that Prometheus stamps samples with."""
    return time.time()


Unanswered = (OSError, urllib.error.URLError)
