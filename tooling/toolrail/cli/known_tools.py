"""Know the tools of this machine, and of the cluster when there is one.

Is: one table for commands that work with and without a cluster. Is not: the registry, nor a reason
to start anything.
Above: `policy.py`. Below: `toolrail.discovery`, `toolrail.registry`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from toolrail.discovery import discover_tools
from toolrail.errors import RedisError, UnknownTool
from toolrail.policy.selectors import did_you_mean
from toolrail.redis_io import connect
from toolrail.registry import RegisteredTool, Registry
from toolrail.settings import Settings
from toolrail_schemas import Source, SourceRef, ToolSpec

PATIENCE_S = 1.0
"""How long to wait for a registry that may not be there."""

Origin = Literal["registry", "installed", "assumed"]


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A spec, where it comes from, and whether something can execute it."""

    spec: ToolSpec
    origin: Origin
    available: bool = True


@dataclass(frozen=True, slots=True)
class KnownTools:
    """Everything that is known by name.

    Attributes:
        is_complete: Whether a registry answered; without one MCP and extension tools are unknown.
    """

    by_name: Mapping[str, KnownTool]
    is_complete: bool

    def specs(self) -> list[ToolSpec]:
        """Return all specs, by name."""
        return [self.by_name[name].spec for name in sorted(self.by_name)]

    def spec_of(self, name: str) -> KnownTool:
        """Return the tool; a plausible MCP or extension name is assumed to be an untrusted tool.

        Raises:
            UnknownTool: No tool has the name, and none could that is not installed.
        """
        known = self.by_name.get(name) or _assumed(name)
        if known is None:
            advice = (
                did_you_mean(name, self.by_name)
                if self.by_name
                else "Install its package, name its module in TOOLRAIL_TOOL_MODULES, or start the "
                "cluster that has it."
            )
            raise UnknownTool(f"There is no tool {name!r}.\n{advice}")
        return known


def find_tools(settings: Settings) -> KnownTools:
    """Return the installed tools, and above them those of the registry when one answers."""
    found = {
        tool.spec.name: KnownTool(tool.spec, "installed")
        for tool in discover_tools(modules=settings.tool_modules).tools.values()
    }
    registered = asyncio.run(_registered(settings))
    for tool in registered or ():
        found[tool.spec.name] = KnownTool(tool.spec, "registry", tool.available)
    return KnownTools(found, is_complete=registered is not None)


async def _registered(settings: Settings) -> list[RegisteredTool] | None:
    patience_s = min(PATIENCE_S, settings.redis_timeout_s)
    redis = connect(settings.redis_url, timeout_s=patience_s, name="toolrail-policy")
    try:
        registry = Registry(redis, prefix=settings.key_prefix, deadline_s=patience_s)
        return await registry.tools()
    except RedisError:
        return None
    finally:
        await redis.aclose()


def _assumed(name: str) -> KnownTool | None:
    head, _, rest = name.partition(".")
    owner, _, tool = rest.partition(".")
    refs: dict[str, tuple[Source, dict[str, str]]] = {
        "mcp": (Source.MCP, {"server": owner}),
        "ext": (Source.EXTENSION, {"extension": owner, "version": "unknown"}),
    }
    if head not in refs or not tool:
        return None
    source, ref = refs[head]
    try:
        spec = ToolSpec.model_validate(
            {
                "name": name,
                "description": "A tool nobody here knows.",
                "input_schema": {"type": "object"},
                "source": source,
                "source_ref": SourceRef.model_validate(ref),
            }
        )
    except ValidationError:
        return None
    return KnownTool(spec, "assumed")
