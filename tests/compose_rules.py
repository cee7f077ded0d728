"""What every service of `compose/` must be: rules over the configuration that Compose renders.

Is: one function per rule, each yields what is wrong. Is not: a test, or the reading of the files
(`compose_files.py`). Above: `unit/test_compose_rules.py`. Below: nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import cast

Node = Mapping[str, object]
Rule = Callable[[str, Node], Iterator[str]]

WORKERS = ("worker-builtin", "worker-mcp", "worker-extension")
OURS = (*WORKERS, "exporter", "cli")
ONE_SHOT = ("cli",)
"""Run by hand and gone again: nobody waits for its health, and it is not restarted."""
NETWORKS = {
    "redis": {"core"},
    "worker-builtin": {"core", "metrics"},
    "worker-mcp": {"core", "metrics", "outside"},
    "worker-extension": {"core", "metrics"},
    "exporter": {"core", "metrics"},
    "cli": {"core"},
    "prometheus": {"metrics"},
    "alertmanager": {"metrics", "edge"},
    "grafana": {"metrics", "edge"},
}
PUBLISHED = ("grafana",)
LEAST_GRACE_S = {"redis": 60.0}
USUAL_GRACE_S = 30.0
DRAIN_MARGIN_S = 30.0
"""A worker cuts off and hands over what still runs at its drain's end, which takes a moment."""
WEAKENED = ("privileged", "cap_add", "devices", "pid", "ipc", "network_mode", "userns_mode")
HEALTH = ("test", "interval", "timeout", "retries", "start_period", "start_interval")
TMP = "/tmp"  # noqa: S108  # inside a container
TMPFS = {"noexec", "nosuid", "nodev"}
CREDENTIAL = re.compile(r"PASSWORD|SECRET|TOKEN|_KEY\b")


def rooted(name: str, service: Node) -> Iterator[str]:
    """Runs as a number that is not root; a name would be looked up in the image."""
    if not re.fullmatch(r"[1-9]\d*:\d+", str(service.get("user", ""))):
        yield f"user is {service.get('user')!r}"


def writable(name: str, service: Node) -> Iterator[str]:
    """Writes to its volumes and to a /tmp from which nothing is executed."""
    if service.get("read_only") is not True:
        yield "the root file system is writable"
    mounts = dict(text.split(":", 1) for text in cast("list[str]", service.get("tmpfs", [])))
    options = set(mounts.pop(TMP, "").split(","))
    if not options >= TMPFS or not any(option.startswith("size=") for option in options):
        yield f"{TMP} is {sorted(options)}"
    if mounts:
        yield f"tmpfs at {sorted(mounts)}"


def privileged(name: str, service: Node) -> Iterator[str]:
    """Has no capability, gets none, and shares nothing of the host."""
    if service.get("cap_drop") != ["ALL"]:
        yield f"cap_drop is {service.get('cap_drop')}"
    if service.get("security_opt") != ["no-new-privileges:true"]:
        yield f"security_opt is {service.get('security_opt')}"
    yield from (f"{key} is set" for key in WEAKENED if service.get(key))


def unlimited(name: str, service: Node) -> Iterator[str]:
    """Cannot take the machine from the others."""
    limits = at(service, "deploy", "resources", "limits")
    yield from (
        f"no limit of {what}" for what in ("cpus", "memory", "pids") if not limits.get(what)
    )


def unhealthy(name: str, service: Node) -> Iterator[str]:
    """Is asked for its health, with nothing left to an engine's own default."""
    check = at(service, "healthcheck")
    if name in ONE_SHOT:
        return
    yield from (f"healthcheck without {key}" for key in HEALTH if not check.get(key))
    test = " ".join(cast("list[str]", check.get("test") or []))
    if name in OURS and test != "CMD toolrail health --ready":
        yield f"healthcheck is {test}"


def abrupt(name: str, service: Node) -> Iterator[str]:
    """Gets SIGTERM and the time it needs; a worker, the time it promises to running calls."""
    if service.get("stop_signal") != "SIGTERM":
        yield f"stop_signal is {service.get('stop_signal')}"
    grace_s = seconds(str(service.get("stop_grace_period", "0s")))
    least_s = LEAST_GRACE_S.get(name, USUAL_GRACE_S)
    if name in WORKERS:
        drain_s = float(str(at(service, "environment").get("TOOLRAIL_DRAIN_S", "inf")))
        least_s = drain_s + DRAIN_MARGIN_S
    if grace_s < least_s:
        yield f"stop_grace_period is {grace_s:g} s, less than {least_s:g} s"


def unattended(name: str, service: Node) -> Iterator[str]:
    """Comes back by itself, has a process 1 that reaps, logs with a bound, and can be scaled."""
    wanted = "no" if name in ONE_SHOT else "unless-stopped"
    if service.get("restart") != wanted:
        yield f"restart is {service.get('restart')!r}"
    if service.get("init") is not True:
        yield "no init"
    if not {"max-size", "max-file"} <= at(service, "logging", "options").keys():
        yield "logs without a bound"
    if "container_name" in service:
        yield "container_name, which breaks --scale"


def reachable(name: str, service: Node) -> Iterator[str]:
    """Is on the networks it needs; only Grafana has a port, and on this machine."""
    networks = set(at(service, "networks"))
    if networks != NETWORKS.get(name):
        yield f"networks are {sorted(networks)}"
    for port in cast("list[Node]", service.get("ports", [])):
        if name not in PUBLISHED or port.get("host_ip") != "127.0.0.1":
            yield f"publishes {port.get('host_ip')}:{port.get('published')}"


def tampered(name: str, service: Node) -> Iterator[str]:
    """Reads its configuration and cannot change it; a missing file is told, not made a folder."""
    for mount in cast("list[Node]", service.get("volumes", [])):
        if mount.get("type") != "bind":
            continue
        target = mount.get("target")
        if mount.get("read_only") is not True:
            yield f"{target} is writable"
        # Compose shows the option only when it is false.
        if at(mount, "bind").get("create_host_path") is not False:
            yield f"{target} would be made up"
        if "docker.sock" in str(mount.get("source")):
            yield "the engine's socket"


def credentials(name: str, service: Node) -> Iterator[str]:
    """Gets every credential as a file that it was given, and no other way."""
    given = {str(secret.get("source")) for secret in cast("list[Node]", service.get("secrets", []))}
    used: set[str] = set()
    for key, value in at(service, "environment").items():
        path = PurePosixPath(str(value))
        if path.parent == PurePosixPath("/run/secrets"):
            used.add(path.name)
        elif CREDENTIAL.search(key):
            yield f"{key} is no file of a secret"
        if re.search(r"://[^/@]*:[^/@]*@", str(value)):
            yield f"{key} has a password in its URL"
    if name == "redis":
        used = {"redis_users", "redis_exporter_password", "redis_backup_password"}
    if used != given:
        yield f"secrets are {sorted(given)}, used are {sorted(used)}"


def hasty(name: str, service: Node) -> Iterator[str]:
    """Starts when Redis answers, and stops before Redis does."""
    if name not in OURS:
        return
    wanted = {"condition": "service_healthy", "restart": True}
    if not wanted.items() <= at(service, "depends_on", "redis").items():
        yield f"depends_on is {service.get('depends_on')}"


def pinned(name: str, service: Node) -> Iterator[str]:
    """Is another's image by tag and digest; which image is ours, the operator says."""
    image = str(service.get("image"))
    if name not in OURS and not re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image):
        yield f"image is {image}"


RULES: tuple[Rule, ...] = (
    rooted,
    writable,
    privileged,
    unlimited,
    unhealthy,
    abrupt,
    unattended,
    reachable,
    tampered,
    credentials,
    hasty,
    pinned,
)


def complaints(config: Node) -> list[str]:
    """Return what is wrong with a rendered configuration, as `service: rule: what`."""
    found = [
        f"{name}: {rule.__name__}: {what}"
        for name, service in sorted(at(config, "services").items())
        for rule in RULES
        for what in rule(name, cast("Node", service))
    ]
    return found + [
        f"network {name} has a way out"
        for name in ("core", "metrics")
        if at(config, "networks", name).get("internal") is not True
    ]


def at(node: Node, *path: str) -> Node:
    """Return the mapping at a path, an empty one when there is none."""
    for key in path:
        node = cast("Node", node.get(key) or {})
    return node


def seconds(text: str) -> float:
    """Return the length of `5m30s`, in seconds.

    Raises:
        ValueError: It is no duration.
    """
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", text)
    if not text or found is None:
        raise ValueError(f"{text!r} is no duration")
    hours, minutes, rest = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + rest
