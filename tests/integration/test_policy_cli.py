"""`toolrail policy` beside a running registry.

Is: what the cluster knows that this machine does not. Is not: the commands without a cluster
(`tests/component/test_policy_cli.py`). Above: nothing. Below: `toolrail.cli`, `toolrail.registry`.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.policies import mcp, native, write
from toolrail.cli.main import run
from toolrail.redis_io import connect
from toolrail.registry import Registry
from toolrail.settings import Settings
from toolrail_schemas import ToolSpec

pytestmark = pytest.mark.one_redis


@pytest.fixture(autouse=True)
def there(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the program find the test's Redis."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLRAIL_REDIS_URL", settings.redis_url)
    monkeypatch.setenv("TOOLRAIL_KEY_PREFIX", settings.key_prefix)


def announce(
    settings: Settings, queue: str, specs: Sequence[ToolSpec], *, available: bool = True
) -> None:
    """Register tools as a worker would."""

    async def work() -> None:
        redis = connect(settings.redis_url, timeout_s=5.0, name="test")
        try:
            registry = Registry(redis, prefix=settings.key_prefix, deadline_s=5.0)
            await registry.announce(queue, "o", specs, worker="w", available=available)
        finally:
            await redis.aclose()

    asyncio.run(work())


def test_a_tool_of_the_cluster_is_explained_as_it_was_announced(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its hints, its budget and whether it can run now come from the registry."""
    announce(settings, "mcp", [mcp("mcp.github.create_issue")], available=False)

    code = run(["policy", "explain", "mcp.github.create_issue", "--json"])
    data = json.loads(capsys.readouterr().out)

    assert code == 2
    assert data["spec_from"] == "registry"
    assert data["decision"]["reason"]["code"] == "source.unavailable"
    assert data["decision"]["visible"] is True


def test_arguments_can_make_a_patch_need_approval(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The patch deletes a file, which the assistant profile asks about."""
    announce(settings, "builtin", [native("workspace.apply_patch")])
    patch = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\n"
    (tmp_path / "args.json").write_text(json.dumps({"patch": patch}), encoding="utf-8")

    run(["policy", "explain", "workspace.apply_patch", "--args", "{}"])
    run(["policy", "explain", "workspace.apply_patch", "--args", "@args.json"])
    headlines = [line for line in capsys.readouterr().out.splitlines() if " for caller " in line]

    assert [line.rpartition(": ")[2] for line in headlines] == ["ALLOWED", "ALLOWED WITH APPROVAL"]


def test_check_looks_servers_up_when_a_registry_answers(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelled server is seen, a known one is not told."""
    announce(settings, "mcp", [mcp("mcp.github.create_issue")])
    write(tmp_path / "p", {"profiles/p.toml": 'allow = ["mcp.github.*", "server:githb"]'})

    code = run(["policy", "check", "p"])

    assert code == 0
    assert capsys.readouterr().err == (
        "warning: profile p: allow[server:githb]: 'server:githb' matches no tool. "
        "Did you mean 'github'?\n"
    )
