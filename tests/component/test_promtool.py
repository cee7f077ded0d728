"""Prometheus' own tools accept the rules, and the rules do what their tests say.

Is: promtool and amtool on the files of `compose/`. Is not: a running server (`tests/live`).
Above: nothing. Below: the packages prometheus and prometheus-alertmanager.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.dashboards import ALERTMANAGER, PROMETHEUS
from tests.servers import absent

RULES = sorted(map(str, (PROMETHEUS / "rules").glob("*.yml")))
TESTS = sorted((PROMETHEUS / "tests").glob("*.yml"))


def run(program: str, package: str, *arguments: str) -> str:
    """Return what a tool prints; fail the test with it when the tool is not content."""
    found = shutil.which(program) or absent(f"apt-get install {package}")
    done = subprocess.run([found, *arguments], capture_output=True, text=True)
    said = done.stdout + done.stderr

    assert done.returncode == 0, said
    return said


def test_promtool_accepts_the_rules_and_the_configuration() -> None:
    """Syntax, templates of annotations; the configuration finds the rules."""
    said = run("promtool", "prometheus", "check", "rules", *RULES)
    config = run("promtool", "prometheus", "check", "config", str(PROMETHEUS / "prometheus.yml"))

    assert said.count("SUCCESS") == len(RULES)
    assert f"{len(RULES)} rule files found" in config


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_the_rules_do_what_their_tests_say(file: Path) -> None:
    """Each alert fires, not just below its threshold, resolves, and is silent without series."""
    assert "SUCCESS" in run("promtool", "prometheus", "test", "rules", str(file))


def test_a_test_of_a_rule_can_fail(tmp_path: Path) -> None:
    """With the threshold of the queue age at an hour, its test sees no alert."""
    promtool = shutil.which("promtool") or absent("apt-get install prometheus")
    folder = tmp_path / "prometheus"
    shutil.copytree(PROMETHEUS, folder)
    rules = folder / "rules" / "alerts.yml"
    text = rules.read_text(encoding="utf-8")
    rules.write_text(re.sub(r"(oldest_age_seconds\)) > 60", r"\1 > 3600", text), encoding="utf-8")
    program = [promtool, "test", "rules", str(folder / "tests" / "users.yml")]
    done = subprocess.run(program, capture_output=True, text=True)

    assert done.returncode == 1
    assert "alertname: ToolrailQueueAge" in done.stdout + done.stderr


def test_alertmanager_accepts_its_configuration(tmp_path: Path) -> None:
    """Debian's is older than `url_file`, the address in a file; everything else is as committed."""
    text = ALERTMANAGER.read_text(encoding="utf-8")
    file = tmp_path / "alertmanager.yml"
    file.write_text(re.sub(r"url_file: .*", 'url: "http://127.0.0.1:9/"', text), encoding="utf-8")

    said = run("amtool", "prometheus-alertmanager", "check-config", str(file))
    assert "2 receivers" in said
