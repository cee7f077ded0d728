"""The files of `compose/` fit together, and fit the code.

Is: configuration, Dockerfile, variables, mounted files, names and ports. Is not: the hardening of
services (`test_compose_rules.py`), nor a running container (`make compose-smoke`). Above: nothing.
Below: `tests/compose_files.py`.
"""

import itertools
import re
import subprocess
from pathlib import Path
from typing import cast

import pytest
import yaml

from tests.compose_files import (
    BASE,
    COMPOSE,
    DEV,
    EXAMPLE,
    PROFILES,
    program,
    rendered,
    run_compose,
)
from tests.compose_rules import OURS, WORKERS, Node, at, seconds
from tests.sources import ROOT
from toolrail.settings import Settings, variable_of

VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)(?::?([-?])([^}]*))?\}")
SETTINGS = {variable_of(name) for name in Settings.model_fields}
OF_COMPOSE = {"COMPOSE_PROFILES"}
"""Variables that Compose itself reads."""
MOST_MAXMEMORY = 0.5
"""Of the container's memory: a rewrite of the append-only file forks."""
UNITS = {"kb": 2**10, "mb": 2**20, "gb": 2**30}
METRICS_PORT = "9464"
NOT_TOGETHER = [pair for n in range(3) for pair in itertools.combinations(PROFILES, n)]


def services(files: tuple[str, ...] = BASE) -> dict[str, Node]:
    """Return every service as Compose understands it."""
    return {name: cast("Node", node) for name, node in at(rendered(files), "services").items()}


def example() -> dict[str, str]:
    """Return the variables of `.env.example`, those that are commented out included."""
    found = re.findall(r"^#?([A-Z][A-Z0-9_]*)=(.*)$", EXAMPLE.read_text(encoding="utf-8"), re.M)
    assert len(found) == len({name for name, _ in found}), "a variable stands there twice"
    return dict(found)


def used() -> dict[str, set[str]]:
    """Return the defaults of each variable in the compose files; `?` for one that must be set."""
    defaults: dict[str, set[str]] = {}
    for file in DEV:
        text = (COMPOSE / file).read_text(encoding="utf-8")
        for name, kind, value in VARIABLE.findall(text):
            defaults.setdefault(name, set()).add("?" if kind == "?" else value)
    return defaults


@pytest.mark.parametrize("files", [BASE, DEV], ids=["base", "dev"])
@pytest.mark.parametrize("profiles", NOT_TOGETHER, ids="+".join)
def test_compose_takes_every_combination_of_files_and_profiles(
    files: tuple[str, ...], profiles: tuple[str, ...], tmp_path: Path
) -> None:
    """With the required variables it is silent; without them it says which one is missing."""
    empty = tmp_path / "empty.env"
    empty.touch()
    required = {name: "x:1" for name, defaults in used().items() if "?" in defaults}

    fine = run_compose("config", "-q", files=files, profiles=profiles)
    minimal = run_compose(
        "config", "-q", files=files, profiles=profiles, env_file=empty, variables=required
    )
    bare = run_compose("config", "-q", files=files, profiles=profiles, env_file=empty)

    assert (fine.returncode, fine.stderr) == (0, "")
    assert (minimal.returncode, minimal.stderr) == (0, "")
    assert bare.returncode != 0
    assert all(f"required variable {name} is missing" in bare.stderr for name in required)


def test_a_profile_that_is_off_starts_nothing(tmp_path: Path) -> None:
    """Without monitoring the cell is Redis, workers and exporter; the cli is never started."""
    env_file = tmp_path / "bare.env"
    env_file.write_text("TOOLRAIL_IMAGE=x:1\n")

    alone = run_compose("config", "--services", env_file=env_file).stdout.split()
    watched = run_compose("config", "--services").stdout.split()

    assert sorted(alone) == sorted(["redis", "exporter", *WORKERS])
    assert sorted(watched) == sorted([*alone, "prometheus", "alertmanager", "grafana"])


def test_the_compose_files_keep_the_schema() -> None:
    """The published schema of Compose, which knows every key."""
    command: list[str | Path] = [
        program("check-jsonschema"),
        "--builtin-schema",
        "vendor.compose-spec",
        *DEV,
    ]
    done = subprocess.run(command, cwd=COMPOSE, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_the_dockerfile_is_clean() -> None:
    """By hadolint, without a rule switched off."""
    text = (COMPOSE / "Dockerfile").read_text(encoding="utf-8")
    command: list[str | Path] = [program("hadolint"), "--failure-threshold", "style", "Dockerfile"]
    done = subprocess.run(command, cwd=COMPOSE, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")
    assert "hadolint ignore" not in text


def test_the_image_is_built_from_digests_and_hashes() -> None:
    """One base, by digest, for both stages; nothing is installed without a hash of the lock."""
    text = (COMPOSE / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    installs = re.findall(r"pip (?:--python \S+ )?install [^&\n]*", text)

    assert re.search(r"^ARG BASE_IMAGE=\S+:[\w.-]+@sha256:[0-9a-f]{64}$", text, re.M)
    assert re.findall(r"^FROM .*$", text, re.M) == [
        "FROM ${BASE_IMAGE} AS build",
        "FROM ${BASE_IMAGE}",
    ]
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert "curl" not in text


def test_the_build_requirements_are_those_of_the_lock() -> None:
    """`make requirements` writes them anew after the lock has changed."""
    words = ["export", "--quiet", "--frozen", "--no-annotate", "--no-header"]
    exported = subprocess.run(
        [program("uv"), *words, "--only-group", "build"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert (COMPOSE / "requirements-build.txt").read_text(encoding="utf-8") == exported


def test_what_the_dockerfile_copies_is_let_in_and_nothing_secret_is() -> None:
    """The ignore file lists what the build sees; all else, the secrets first, stays out."""
    text = (COMPOSE / "Dockerfile").read_text(encoding="utf-8")
    ignore = (COMPOSE / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in ignore if line.startswith("!")}
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.M)
        for word in line.split()
    }

    assert "*" in ignore
    assert all((ROOT / path).exists() for path in let_in)
    assert all(
        any(path == word or path.startswith(f"{word}/") for path in let_in) for word in copied
    )
    assert all(path.split("/")[0] in copied or path in copied for path in let_in)


def test_every_variable_is_documented_with_its_default_and_none_is_left_over() -> None:
    """`.env.example` against `${…}`, both ways; a line that is commented out has the default."""
    documented, defaults = example(), used()

    assert set(documented) - OF_COMPOSE == set(defaults)
    for name, values in defaults.items():
        if "?" not in values:
            assert values == {documented[name]}, name


def test_every_toolrail_variable_of_a_service_is_a_setting_with_a_good_value() -> None:
    """A worker refuses unknown names at its start; here it is found before."""
    config = services(DEV)
    named = {
        name: at(config[name], "environment")
        for name in config
        if name in OURS or "TOOLRAIL_" in str(config[name].get("environment"))
    }
    image = (COMPOSE / "Dockerfile").read_text(encoding="utf-8")
    unknown = {
        f"{service}: {key}"
        for service, environment in named.items()
        for key in environment
        if key.startswith("TOOLRAIL_") and key not in SETTINGS
    }
    unknown |= set(re.findall(r"\bTOOLRAIL_\w+(?==)", image)) - SETTINGS
    for environment in named.values():
        values = {
            key.removeprefix("TOOLRAIL_").lower(): value
            for key, value in environment.items()
            if value not in (None, "")
        }
        Settings.model_validate(values)

    assert set(named) == set(OURS)
    assert not unknown, sorted(unknown)


def test_workers_serve_the_queue_of_their_name_and_show_metrics_where_they_are_scraped() -> None:
    """One port for all, the one that the image names; health asks the same."""
    config = services()
    dockerfile = (COMPOSE / "Dockerfile").read_text(encoding="utf-8")
    commands = {name: config[name].get("command") for name in (*WORKERS, "exporter")}

    assert commands == {name: name.split("-") for name in WORKERS} | {"exporter": ["exporter"]}
    assert re.findall(r"^EXPOSE (.*)$", dockerfile, re.M) == [METRICS_PORT]
    for name in commands:
        environment = at(config[name], "environment")
        assert environment["TOOLRAIL_METRICS_PORT"] == METRICS_PORT, name
        assert environment["TOOLRAIL_METRICS_HOST"] == "0.0.0.0", name  # noqa: S104


def test_no_service_hides_the_build_of_its_image() -> None:
    """An empty variable of Compose would win over the one that the image was built with."""
    dockerfile = (COMPOSE / "Dockerfile").read_text(encoding="utf-8")
    named = [name for name in OURS if "TOOLRAIL_BUILD" in at(services()[name], "environment")]

    assert "TOOLRAIL_BUILD=${REVISION}" in dockerfile
    assert named == []


def test_containers_run_as_the_user_of_the_image_in_its_folders() -> None:
    """A named volume takes its owner from the folder that the image has in its place."""
    dockerfile = (COMPOSE / "Dockerfile").read_text(encoding="utf-8")
    [user] = re.findall(r"^USER (.*)$", dockerfile, re.M)
    config = services()
    [volume] = cast("list[Node]", config["worker-builtin"]["volumes"])

    assert {config[name]["user"] for name in OURS} == {user}
    assert f"-o {user.split(':')[0]} " in dockerfile
    assert f"TOOLRAIL_WORKSPACE_ROOT={volume['target']}\n" in dockerfile
    # That user is nobody who could decide about a call.
    assert "TOOLRAIL_LOGIN_IS_PERSON=false" in dockerfile


def test_each_role_is_the_user_of_its_service() -> None:
    """URL, password file and the users that Redis knows agree."""
    users = (COMPOSE / "redis" / "users.acl.in").read_text(encoding="utf-8")
    roles = set(re.findall(r"^user (\w+)", users, re.M)) - {"default"}
    for name in OURS:
        environment = at(services()[name], "environment")
        found = re.fullmatch(r"redis://(\w+)@redis:6379/0", str(environment["TOOLRAIL_REDIS_URL"]))

        assert found is not None, name
        role = "worker" if name in WORKERS else {"cli": "client"}.get(name, name)
        assert found[1] == role
        assert role in roles
        password_file = f"/run/secrets/redis_{role}_password"
        assert environment["TOOLRAIL_REDIS_PASSWORD_FILE"] == password_file


def test_every_mounted_file_is_in_the_project_or_made_by_the_script() -> None:
    """Nobody finds out at `up` that a file is missing."""
    made = (COMPOSE / "secrets" / "make.sh").read_text(encoding="utf-8")
    roles = re.findall(r'^roles="(.*)"$', made, re.M)[0].split()
    names = re.findall(r'^names="(.*)"$', made, re.M)[0].split()
    secrets = {"users.acl", *names, *(f"redis_{role}_password" for role in roles)}
    mounted = {
        Path(str(mount["source"]))
        for service in services(DEV).values()
        for mount in cast("list[Node]", service.get("volumes", []))
        if mount.get("type") == "bind"
    }
    files = {
        Path(str(cast("Node", secret)["file"])) for secret in at(rendered(), "secrets").values()
    }

    assert mounted
    assert not [path for path in mounted if not path.exists()]
    assert {path.parent for path in files} == {COMPOSE / "secrets"}
    assert {path.name for path in files} <= secrets


def test_the_data_of_redis_leave_room_for_a_fork() -> None:
    """By default, and as `.env.example` tells those who change it."""
    redis = services()["redis"]
    [size] = [word for word in cast("list[str]", redis["command"]) if word.endswith("b")]
    limit = int(str(at(redis, "deploy", "resources", "limits")["memory"]))

    assert int(size[:-2]) * UNITS[size[-2:]] <= limit * MOST_MAXMEMORY
    assert "noeviction" in (COMPOSE / "redis" / "redis.conf").read_text(encoding="utf-8")


def test_a_worker_may_drain_as_long_as_a_tool_may_run() -> None:
    """Calls that are cut off at a deploy are the exception."""
    environment = at(services()["worker-mcp"], "environment")

    assert float(str(environment["TOOLRAIL_DRAIN_S"])) == 300.0
    assert seconds(str(services()["worker-mcp"]["stop_grace_period"])) == 330.0


def test_prometheus_scrapes_every_service_that_shows_metrics_and_no_other() -> None:
    """By service name, on the port of the image, over a network that both are on."""
    config = load_yaml("prometheus/prometheus.yml")
    targets = {
        target
        for job in cast("list[Node]", config["scrape_configs"])
        for target in scraped_by(job)
        if not target.startswith("localhost:")
    }
    shown = {
        f"{name}:{METRICS_PORT}"
        for name, service in services().items()
        if "TOOLRAIL_METRICS_PORT" in at(service, "environment")
    }

    assert targets == shown
    assert all("metrics" in at(services()[target.split(":")[0]], "networks") for target in targets)


def test_monitoring_finds_its_parts_by_their_service_names() -> None:
    """Prometheus its Alertmanager, Grafana both; each where its health is asked."""
    prometheus = load_yaml("prometheus/prometheus.yml")
    sources = load_yaml("grafana/provisioning/datasources/prometheus.yaml")
    urls = {str(source["url"]) for source in cast("list[Node]", sources["datasources"])}
    [manager] = cast("list[Node]", at(prometheus, "alerting")["alertmanagers"])
    [managers] = cast("list[Node]", manager["static_configs"])
    asked = {
        name: str(cast("list[str]", at(services()[name], "healthcheck")["test"])[-1])
        for name in ("prometheus", "alertmanager")
    }
    own = {f"http://{name}:{url.split(':')[2].split('/')[0]}" for name, url in asked.items()}

    assert urls == own
    assert {f"http://{target}" for target in cast("list[str]", managers["targets"])} <= own
    assert "--config.file=/etc/prometheus/prometheus.yml" in str(
        services()["prometheus"]["command"]
    )


def scraped_by(job: Node) -> set[str]:
    """Return what a scrape job names, as `service:port`."""
    found = {
        target
        for group in cast("list[Node]", job.get("static_configs", []))
        for target in cast("list[str]", group["targets"])
    }
    return found | {
        f"{name}:{group['port']}"
        for group in cast("list[Node]", job.get("dns_sd_configs", []))
        for name in cast("list[str]", group["names"])
    }


def load_yaml(name: str) -> Node:
    """Return a YAML file of `compose/`."""
    return cast("Node", yaml.safe_load((COMPOSE / name).read_text(encoding="utf-8")))
