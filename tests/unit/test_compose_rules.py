"""Every service of `compose/` keeps every rule, and every rule sees its breach.

Is: the rules over what Compose renders. Is not: the other files (`test_compose.py`). Above:
nothing. Below: `tests/compose_rules.py`, `tests/compose_files.py`.
"""

import copy
from typing import cast

import pytest

from tests.compose_files import DEV, rendered
from tests.compose_rules import NETWORKS, TMP, complaints

ABSENT = object()
BREACHES: list[tuple[str, object, str]] = [
    ("exporter.user", "root", "exporter: rooted: user is 'root'"),
    ("exporter.user", "0:0", "exporter: rooted: user is '0:0'"),
    ("redis.user", ABSENT, "redis: rooted: user is None"),
    ("grafana.read_only", False, "grafana: writable: the root"),
    ("grafana.tmpfs", ABSENT, "grafana: writable: /tmp is"),
    ("worker-mcp.tmpfs", [f"{TMP}:size=1m,nosuid,nodev"], "worker-mcp: writable: /tmp is"),
    ("worker-mcp.tmpfs", [f"{TMP}:noexec,nosuid,nodev"], "worker-mcp: writable: /tmp is"),
    ("prometheus.cap_drop", ["NET_RAW"], "prometheus: privileged: cap_drop"),
    ("prometheus.cap_add", ["NET_ADMIN"], "prometheus: privileged: cap_add is set"),
    ("redis.privileged", True, "redis: privileged: privileged is set"),
    ("redis.security_opt", ["seccomp:unconfined"], "redis: privileged: security_opt"),
    ("redis.network_mode", "host", "redis: privileged: network_mode is set"),
    ("worker-builtin.deploy.resources.limits.memory", ABSENT, "unlimited: no limit of memory"),
    ("worker-builtin.deploy.resources.limits.cpus", ABSENT, "unlimited: no limit of cpus"),
    ("alertmanager.deploy.resources.limits.pids", ABSENT, "unlimited: no limit of pids"),
    ("redis.healthcheck", ABSENT, "redis: unhealthy: healthcheck without test"),
    ("exporter.healthcheck.retries", ABSENT, "unhealthy: healthcheck without retries"),
    ("exporter.healthcheck.test", ["CMD", "true"], "exporter: unhealthy: healthcheck is CMD true"),
    ("worker-mcp.stop_grace_period", "5m29s", "abrupt: stop_grace_period is 329 s, less than 330"),
    ("worker-mcp.environment.TOOLRAIL_DRAIN_S", "301", "is 330 s, less than 331 s"),
    ("worker-mcp.environment.TOOLRAIL_DRAIN_S", ABSENT, "less than inf s"),
    ("redis.stop_grace_period", "59s", "redis: abrupt: stop_grace_period is 59 s"),
    ("exporter.stop_signal", "SIGKILL", "exporter: abrupt: stop_signal is SIGKILL"),
    ("worker-mcp.restart", ABSENT, "worker-mcp: unattended: restart is None"),
    ("cli.restart", "unless-stopped", "cli: unattended: restart is 'unless-stopped'"),
    ("worker-mcp.init", ABSENT, "worker-mcp: unattended: no init"),
    ("grafana.logging", ABSENT, "grafana: unattended: logs without a bound"),
    ("worker-mcp.container_name", "mcp", "worker-mcp: unattended: container_name"),
    ("worker-builtin.networks.outside", None, "worker-builtin: reachable: networks are"),
    ("redis.networks.edge", None, "redis: reachable: networks are"),
    ("redis.ports", [{"host_ip": "127.0.0.1", "published": "6379"}], "redis: reachable: publishes"),
    ("grafana.ports", [{"published": "3000"}], "grafana: reachable: publishes None:3000"),
    ("redis.volumes.1.read_only", False, "redis: tampered: /etc/redis is writable"),
    ("redis.volumes.1.bind", {}, "redis: tampered: /etc/redis would be made up"),
    ("redis.volumes.1.source", "/run/docker.sock", "redis: tampered: the engine's socket"),
    ("exporter.environment.TOOLRAIL_SECRET", "x", "credentials: TOOLRAIL_SECRET is no file"),
    (
        "exporter.environment.TOOLRAIL_REDIS_URL",
        "redis://exporter:pw@redis:6379/0",
        "credentials: TOOLRAIL_REDIS_URL has a password",
    ),
    ("exporter.secrets", [{"source": "redis_client_password"}], "exporter: credentials: secrets"),
    ("exporter.depends_on.redis.condition", "service_started", "exporter: hasty: depends_on"),
    ("worker-mcp.depends_on", ABSENT, "worker-mcp: hasty: depends_on is None"),
    ("grafana.image", "grafana/grafana:latest", "grafana: pinned: image is"),
]


def test_every_service_keeps_every_rule() -> None:
    """Hardening, limits, health, grace, networks, secrets, images: see the rules' docstrings."""
    config = rendered()

    assert set(cast("dict[str, object]", config["services"])) == set(NETWORKS)
    assert not complaints(config), "\n".join(complaints(config))


def test_developing_opens_the_port_of_redis_and_nothing_else() -> None:
    """On this machine only; what else compose.dev.yaml changes is how the image is made."""
    assert complaints(rendered(DEV)) == [
        "redis: reachable: networks are ['core', 'edge']",
        "redis: reachable: publishes 127.0.0.1:6379",
    ]


@pytest.mark.parametrize(("path", "value", "complaint"), BREACHES)
def test_a_breach_of_a_rule_is_seen(path: str, value: object, complaint: str) -> None:
    """Each rule is broken once, in the configuration as it is."""
    config = copy.deepcopy(rendered())
    services = cast("dict[str, object]", config["services"])
    put(services, path.split("."), value)

    found = complaints(config)

    assert [text for text in found if complaint in text], found


@pytest.mark.parametrize("network", ["core", "metrics"])
def test_a_way_out_of_an_inner_network_is_seen(network: str) -> None:
    """Redis and the exporters reach nothing outside, and nothing outside reaches them."""
    config = copy.deepcopy(rendered())
    cast("dict[str, dict[str, object]]", config["networks"])[network].pop("internal")

    assert complaints(config) == [f"network {network} has a way out"]


def put(node: object, path: list[str], value: object) -> None:
    """Set or remove what stands at a path of keys and indexes."""
    for key in path[:-1]:
        node = cast("list[object]", node)[int(key)] if key.isdecimal() else child(node, key)
    mapping = cast("dict[str, object]", node)
    if value is ABSENT:
        mapping.pop(path[-1])
    else:
        mapping[path[-1]] = value


def child(node: object, key: str) -> object:
    """Return a member of a mapping."""
    return cast("dict[str, object]", node)[key]
