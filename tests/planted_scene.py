"""Let a cluster be told secrets in every way, and collect every byte it leaves behind.

Is: the cluster, the calls, the decisions, the commands, and the reading of Redis, logs, views and
metrics. Is not: the secrets (`planted.py`) or the judgement. Above: `test_planted_secrets.py`.
Below: `toolrail.testing`, the command line.
"""

import asyncio
import fnmatch
import io
import json
import logging
import sys
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from tests import planted
from tests.sources import ROOT
from tests.waiting import await_until
from toolrail import Run, Toolrail
from toolrail.cli.catalogue import all_commands
from toolrail.cli.main import run as run_command
from toolrail.logs import set_up_logging
from toolrail.redis_io import connect
from toolrail.request import CallRequest
from toolrail.settings import Settings, variable_of
from toolrail.supervisor.spec import ChildSpec, Stage
from toolrail.supervisor.supervisor import ChildNeverReady
from toolrail.testing import Cluster
from toolrail_schemas import ApprovalMode, ToolResult

BOUND_S = 60.0
POLICY = {
    "platform.toml": "",
    "source.toml": "",
    "profiles/agent.toml": 'on_denied = "return_result"\n'
    'allow = ["planted.*", "server:leaky", "extension:leaky"]\n',
    "users/ann.toml": 'waive = ["server:leaky", "extension:leaky"]\n',
}
AT_HOME = {
    # What a call was given and what it answered: the model wrote the one and reads the other.
    "run:*:call:*": {"args", "result"},
    "inbox:*": None,
    # An agent service gave the run its name, and finds it by that.
    "run:*": {"spec", "name"},
    "run_name:*": None,
    # The same on its way to an extension and back.
    "ext:*:*:calls": None,
    "ext_replies:*": None,
}
"""Keys, without their prefix, that may hold a secret, and which fields of them; None is all."""
Texts = list[tuple[str, bytes]]


@dataclass
class Scene:
    """What was collected, by where it was found."""

    kept: Texts = field(default_factory=Texts)
    """Redis, without what may be at home there."""
    home: Texts = field(default_factory=Texts)
    logs: Texts = field(default_factory=Texts)
    shown: Texts = field(default_factory=Texts)
    """Command line, approvals, metrics."""
    redis_url: str = ""
    results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])

    @property
    def all(self) -> Texts:
        """Return everything that must hold no secret."""
        return [*self.kept, *self.logs, *self.shown]


def servers_file(folder: Path) -> Path:
    """Write a servers file with a server that talks, one that refuses and one behind a URL."""
    leaky = {
        "command": sys.executable,
        "args": ["-m", "tests.planted_server"],
        "cwd": str(ROOT),
        "env": {"PLANTED_OWN": planted.OWN_VARIABLE.text},
        "toolrail": {"env_passthrough": ["PLANTED_PASSED"], "trusted": True},
    }
    refusing = {**leaky, "args": ["-m", "tests.planted_server", "refuse"]}
    remote = {
        "url": "https://host.example/mcp",
        "headers": {"Authorization": f"Bearer {planted.HEADER.text}"},
    }
    file = folder / "servers.json"
    servers = {"leaky": leaky, "refusing": refusing, "remote": remote}
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


@asynccontextmanager
async def open_cluster(folder: Path) -> AsyncGenerator[Cluster]:
    """Give a cluster of all sources with an extension, which logs all there is to log."""
    for name, text in POLICY.items():
        file = folder / "policy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    settings = Settings(
        secret=SecretStr(planted.SETTINGS_SECRET.text),
        policy_dir=folder / "policy",
        tool_modules=("tests.planted_tools",),
        mcp_servers_file=servers_file(folder),
        log_level="debug",
        metrics_port=0,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANTED_PASSED", planted.PASSED_VARIABLE.text)
        async with Cluster(folder, settings=settings, exports=True) as cluster:
            argv = (sys.executable, "-m", "tests.extensions.leaky")
            await cluster.add(
                ChildSpec(
                    name="leaky",
                    argv=argv,
                    env=cluster.environment(),
                    cwd=str(ROOT),
                    stage=Stage.FRONT,
                )
            )
            await start_in_vain(cluster)
            yield cluster


async def start_in_vain(cluster: Cluster) -> None:
    """Start a worker whose tool module cannot be imported, and says a secret about it."""
    modules = {variable_of("tool_modules"): "tests.planted_broken"}
    with pytest.raises(ChildNeverReady):
        await cluster.add(
            ChildSpec(
                name="broken",
                argv=(sys.executable, "-m", "toolrail", "worker", "builtin"),
                env=cluster.environment() | modules,
                cwd=str(ROOT),
            )
        )


async def make_calls(rail: Toolrail, scene: Scene) -> Sequence[str]:
    """Tell every kind of tool its secrets; return the runs."""
    run = await rail.open_run(profile="agent", user="ann", approval_mode=ApprovalMode.INTERACTIVE)
    broken = await rail.open_run(profile="agent", user="ann")

    async def call(name: str, given: Run = run, **arguments: object) -> None:
        label = f"{len(scene.results)} {name}"
        scene.results[label] = await given.call(
            name,
            arguments,  # type: ignore[arg-type]  # JSON all the same
            id=f"c{len(scene.results)}",
            timeout_s=BOUND_S,
        )

    pin, note = planted.MARKED.text, planted.IN_TEXT.text
    account = {"host": "h", "key": planted.NESTED.text}
    password = planted.MCP_ARGUMENT.text
    for tool in ("mcp.leaky.whoami", "ext.leaky.spill"):
        await await_until(partial(is_known, run, tool), tool, timeout_s=BOUND_S)
    await call("planted.log_in", pin=pin, account=account, password=planted.NAMED.text)
    await call("planted.log_in", pin=[planted.REFUSED.text], account=account)
    await call("planted.chat", pin=pin, note=note)
    await call("planted.crash", broken, pin=pin)
    await call("planted.tell")
    await call(planted.TOOL_NAME.text)
    await call("mcp.leaky.whoami", password=password)
    await call("mcp.leaky.leave", password=password)
    await call("ext.leaky.spill", token=planted.EXTENSION_ARGUMENT.text)
    last = await rail.open_run(profile="agent", user="ann", name=planted.RUN_NAME.text)
    await call("planted.fail_run", last)
    return [run.id, broken.id, last.id]


async def is_known(run: Run, name: str) -> bool:
    """Return whether a worker offers the tool by now."""
    return any(spec.name == name for spec in await run.tools())


async def decide(rail: Toolrail, cluster: Cluster, scene: Scene) -> str:
    """Ask a person twice, who refuses once and approves once; return the run."""
    run = await rail.open_run(profile="agent", user="ann", approval_mode=ApprovalMode.INTERACTIVE)
    arguments = {"pin": planted.ASKED.text, "note": planted.IN_TEXT.text}
    tickets = [
        await run.dispatch(CallRequest(id=f"p{n}", name="planted.pay", arguments=arguments))
        for n in range(2)
    ]
    ids = [ticket.approval_id for ticket in tickets]
    await look_at(rail, cluster, scene, ids)
    await rail.approvals.deny(ids[0], by="bob", comment=planted.COMMENT.text)
    await rail.approvals.approve(ids[1], by="bob")
    for n, ticket in enumerate(tickets):
        scene.results[f"pay {n}"] = await run.wait(ticket, timeout_s=BOUND_S)
    await look_at(rail, cluster, scene, ids)
    await run.complete()
    return run.id


async def look_at(rail: Toolrail, cluster: Cluster, scene: Scene, ids: Sequence[str]) -> None:
    """Look at questions as a person does, with the API and with the command line."""
    page = await rail.approvals.pending()
    for record in (*page.records, *[await rail.approvals.get(one) for one in ids]):
        scene.shown.append(("approval record", record.model_dump_json().encode()))
    for one in ids:
        redacted = await rail.approvals.redacted(one)
        scene.shown.append(("redacted arguments", json.dumps(redacted).encode()))
    commands = [["list"], ["list", "--json"]]
    commands += [["show", one, *more] for one in ids for more in ([], ["--full"], ["--json"])]
    await type_commands(cluster, scene, [["approvals", *words] for words in commands])


async def type_commands(cluster: Cluster, scene: Scene, commands: Sequence[list[str]]) -> None:
    """Type commands as an operator does, those that are installed; keep all they print."""
    with root_kept(), pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment().items():
            patch.setenv(name, value)
        for words in commands:
            if words[0] not in all_commands():
                continue
            out = io.StringIO()
            with redirect_stdout(out), redirect_stderr(out):
                code = await asyncio.to_thread(run_command, ["--debug", *words])
            text = out.getvalue()
            assert code in (0, 1), (words, code, text)
            assert "a bug of Toolrail" not in text
            scene.shown.append((" ".join(words), text.encode()))


OPERATORS = [
    *(["doctor"], ["workers"], ["workers", "--json"], ["queues"], ["runs"], ["runs", "--json"]),
    *(["journal", planted.TYPED.text], ["run", "show", planted.TYPED.text]),
    *(["dlq", "list"], ["dlq", "list", "--json"], ["approvals", "list"]),
]
ABOUT_RUN = [
    *(["journal"], ["journal", "--json"], ["run", "show"], ["run", "show", "--json"]),
    ["run", "tools"],
]


async def read_redis(settings: Settings, scene: Scene) -> None:
    """Read every key of the server, as bytes."""
    redis = connect(settings.redis_url, timeout_s=5, name="toolrail-test")
    try:
        keys = cast("AsyncIterator[str]", redis.scan_iter(count=1000))
        async for key in keys:
            name = key.removeprefix(settings.key_prefix)
            for part, data in await read_key(redis, key):
                into = scene.home if is_home(name, part) else scene.kept
                into.append((f"{name} {part}", key.encode() + b" " + data))
        scene.shown += [
            (f"metrics of {name}", await asyncio.to_thread(fetch, metrics_url(text)))
            for name, text in scene.kept
            if name.startswith("worker:")
            and name.endswith(" metrics_address")
            and text[-1:] != b" "
        ]
    finally:
        await redis.aclose()


def is_home(name: str, part: str) -> bool:
    """Return whether a secret may be in this part of a key."""
    return any(
        fields is None or part in fields
        for pattern, fields in AT_HOME.items()
        if fnmatch.fnmatch(name, pattern)
    )


async def read_key(redis: Redis, key: str) -> Texts:
    """Return the parts of a key: a hash by field, all else as one."""
    match str(await redis.type(key)):
        case "hash":
            fields = cast("dict[str, str]", await redis.hgetall(key))
            return [(name, f"{name} {value}".encode()) for name, value in fields.items()]
        case "stream":
            return [("", str(await redis.xrange(key)).encode())]
        case "zset":
            return [("", str(await redis.zrange(key, 0, -1)).encode())]
        case "list":
            return [("", str(await redis.lrange(key, 0, -1)).encode())]
        case "set":
            return [("", str(await redis.smembers(key)).encode())]
        case _:
            return [("", str(await redis.get(key)).encode())]


def metrics_url(field: bytes) -> str:
    """Return where the worker shows its metrics whose record holds this field."""
    return f"http://{field.decode().split()[-1]}/metrics"


def fetch(url: str) -> bytes:
    """Return what a process shows of itself."""
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  # our own
        return cast("bytes", answer.read())


@contextmanager
def root_kept() -> Generator[None]:
    """Leave logging as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        root.handlers[:] = handlers
        root.setLevel(level)


async def counted(cluster: Cluster) -> bytes:
    """Return the exporter's page when it has read what the ledger counts."""
    pages: list[bytes] = []

    async def has_read() -> bool:
        pages.append(await asyncio.to_thread(fetch, cluster.metrics_url))
        return b"toolrail_redis_up 1.0" in pages[-1]

    await await_until(has_read, "the exporter to read Redis", timeout_s=BOUND_S)
    return pages[-1]


async def collect(folder: Path) -> Scene:
    """Let everything happen once, and collect what is left of it everywhere."""
    scene, own_log = Scene(), io.StringIO()
    with root_kept():
        async with open_cluster(folder) as cluster:
            scene.redis_url = cluster.settings.redis_url
            set_up_logging("debug", "json", own_log)
            async with cluster.client() as rail:
                runs = [*await make_calls(rail, scene), await decide(rail, cluster, scene)]
                about_runs = [[*words[:2], run, *words[2:]] for run in runs for words in ABOUT_RUN]
                await type_commands(cluster, scene, [*OPERATORS, *about_runs])
                await read_redis(cluster.settings, scene)
                scene.shown.append(("metrics of the exporter", await counted(cluster)))
    scene.logs.append(("the client", own_log.getvalue().encode()))
    for name in ("builtin.1", "mcp.1", "extension.1", "leaky", None):
        scene.logs.append((name or "all processes", "\n".join(cluster.lines(name)).encode()))
    scene.logs.append(("the supervisor", "\n".join(cluster.events()).encode()))
    return scene
