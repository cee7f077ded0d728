"""What the pages of `compose/` tell people to type can be typed there.

Is: every `docker compose` line of RUNBOOK.md and README.md: its services, what runs in them, the
scripts and commands of ours. Is not: what the commands do (`make compose-smoke`), nor plain
`toolrail` lines (`test_alert_rules.py`). Above: nothing. Below: `tests/compose_files.py`.
"""

import itertools
import re
import shlex
from typing import cast

import pytest

from tests.compose_files import COMPOSE, DEV, rendered
from tests.compose_rules import OURS, Node, at
from toolrail.cli.main import run

PAGES = ("RUNBOOK.md", "README.md")
BEGIN = ["docker", "compose"]
WITH_VALUE = {"--tail", "--scale"}
SERVICES = {"up", "stop", "restart", "logs", "ps"}
"""Verbs that are followed by any number of services."""
INSIDE = {"exec", "run"}
"""Verbs that are followed by one service and what to run there."""
NOTHING = {"down"}
PROGRAMS = {
    "prometheus": {"promtool"},
    "alertmanager": {"amtool"},
    "redis": {"sh", "df"},
    "worker-mcp": {"sh"},
}
"""What the other images have, and ours beside `toolrail`."""
NEVER = ("redis-cli", "valkey-cli", "CONFIG", "config set", "curl")
"""What no role, or no image, has."""


def typed() -> list[str]:
    """Return each `docker compose` command of the pages, in one line."""
    found: list[str] = []
    for page in PAGES:
        text = (COMPOSE / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```\n(.*?)^```", text, re.M | re.S)
        spans = re.findall(r"`([^`]+)`", re.sub(r"^```\n.*?^```", "", text, flags=re.M | re.S))
        lines = [line for block in blocks for line in block.splitlines()] + spans
        found += [" ".join(line.split()) for line in lines if line.split()[:2] == BEGIN]
    return sorted({line for line in found if "…" not in line and line.split() != BEGIN})


def services() -> set[str]:
    """Return the names of all services."""
    return set(at(rendered(DEV), "services"))


def words_of(line: str) -> tuple[str, list[str], list[str]]:
    """Return a command's verb, its options with their values, and the words that follow."""
    # Without the marks of what a person fills in.
    words = shlex.split(re.sub(r"[<>]", "", line))[2:]
    verb, rest, options = words[0], words[1:], list[str]()
    while rest and rest[0].startswith("-"):
        taken = 2 if rest[0] in WITH_VALUE else 1
        options, rest = options + rest[:taken], rest[taken:]
    return verb, options, rest


@pytest.mark.parametrize("line", typed())
def test_a_line_names_services_that_exist_and_programs_they_have(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verb, services, scaled services; inside of one a script of ours, or a program it has."""
    verb, options, rest = words_of(line)
    scaled = {word.partition("=")[0] for word in options if re.fullmatch(r"[a-z-]+=\d+", word)}

    assert verb in SERVICES | INSIDE | NOTHING
    assert scaled <= services()
    if verb in INSIDE:
        check_inside(rest, capsys)
    else:
        assert set(rest) - {word for word in rest if word.startswith("-")} <= services()


def check_inside(rest: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the service has what is to be run in it."""
    service, *command = rest
    assert service in services()
    if service == "cli":
        names = list(itertools.takewhile(str.isalpha, command))
        assert run([*names, "--help"]) == 0
        said = capsys.readouterr().out
        assert [word for word in command if word.startswith("--") and word not in said] == []
        return
    assert command[0] in PROGRAMS[service], command[0]
    for script in (word for word in command if word.startswith("/etc/redis/")):
        assert (COMPOSE / "redis" / script.rpartition("/")[2]).is_file()


def test_the_pages_tell_nobody_to_do_what_no_role_may() -> None:
    """The default user is off, and the users have no administration of Redis."""
    text = "\n".join((COMPOSE / page).read_text(encoding="utf-8") for page in PAGES)

    assert [word for word in NEVER if word in text] == []


def test_what_is_typed_in_a_service_of_ours_finds_its_command() -> None:
    """The image's entry point is the program, so that `cli doctor` is `toolrail doctor`."""
    image = (COMPOSE / "Dockerfile").read_text(encoding="utf-8")
    overridden = [
        name
        for name in OURS
        if cast("Node", at(rendered(DEV), "services")[name]).get("entrypoint") is not None
    ]

    assert 'ENTRYPOINT ["toolrail"]' in image
    assert overridden == []


def test_every_receiver_is_made_in_the_deployment() -> None:
    """A deployment that tells nobody of an alert looks healthy."""
    wanted = re.findall(
        r"url_file: /etc/alertmanager/(\S+)",
        (COMPOSE / "alertmanager" / "alertmanager.yml").read_text(encoding="utf-8"),
    )
    deploy = (COMPOSE / "README.md").read_text(encoding="utf-8").partition("docker compose up")[0]

    assert wanted
    assert [name for name in wanted if f"> alertmanager/{name}\n" not in deploy] == []
