"""Find the tools that are installed here.

Is: the entry-point group `toolrail.tools` and a list of modules, read into one table by name.
Is not: announcing them (`registry.py`), nor any choice among them (policy).
Above: the builtin executor, `toolrail tools`. Below: `tools.py`, importlib.
"""

import importlib
import importlib.metadata
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import cast

from toolrail.errors import ConfigError
from toolrail.settings import variable_of
from toolrail.tools import Isolation, Tool

ENTRY_POINT_GROUP = "toolrail.tools"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """A place that should have given tools and did not."""

    place: str
    """The entry point, as its owner wrote it."""
    error: str
    """Type and text of the exception."""


@dataclass(frozen=True, slots=True)
class DiscoveredTools:
    """What is installed, and what is broken."""

    tools: Mapping[str, Tool]
    """By canonical name, sorted."""
    broken: tuple[BrokenPlugin, ...] = ()


def discover_tools(
    *,
    modules: Sequence[str] = (),
    entry_points: Iterable[importlib.metadata.EntryPoint] | None = None,
) -> DiscoveredTools:
    """Return every tool of the installed plugins and of `modules`.

    A plugin that cannot be imported is logged and reported; the others are still found. A module
    that somebody named is one he counts on.

    Args:
        modules: Import names, such as `settings.tool_modules`; looked for in the working folder
            too, like those of `python -m`.
        entry_points: For tests; the installed ones of `toolrail.tools` when left out.

    Raises:
        ConfigError: A named module gives no tools; the exception and its line are told. Or two
            tools share a name; both places are named. Running either would be a guess.
    """
    if entry_points is None:
        entry_points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    found: dict[str, tuple[Tool, str]] = {}
    broken: list[BrokenPlugin] = []
    for point in sorted(entry_points, key=lambda point: (point.name, point.value)):
        place = f"entry point {point.name!r} ({point.value})"
        try:
            tools = _load(point.load, place)
        # A plugin is other people's code at import time: the edge where anything may come.
        except (Exception, SystemExit) as error:
            log.exception("tools.plugin_broken", extra={"place": place})
            broken.append(BrokenPlugin(place, f"{type(error).__name__}: {error}"))
            continue
        _add_all(found, tools, place)
    for name in modules:
        _add_all(found, _load_named(name), _place_of(name))
    tools_by_name = {name: found[name][0] for name in sorted(found)}
    return DiscoveredTools(MappingProxyType(tools_by_name), tuple(broken))


def _place_of(module: str) -> str:
    return f"module {module!r}"


def _load(load: Callable[[], object], place: str) -> list[Tool]:
    return [_importable(tool) for tool in _tools_in(load(), place)]


def _load_named(name: str) -> list[Tool]:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return _load(lambda: importlib.import_module(name), _place_of(name))
    # Other people's code at import time, as above.
    except (Exception, SystemExit) as error:
        log.debug("tools.module_broken", exc_info=True)
        raise _explain(name, error) from error


def _explain(name: str, error: BaseException) -> ConfigError:
    key = variable_of("tool_modules")
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        return ConfigError(
            f"there is no module {name!r}.",
            fix=f"Correct the name; it is looked for in {Path.cwd()} and in what is installed.",
            key=key,
        )
    file, line = _where(error)
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, ConfigError):
        # One of ours, which may know better what is to blame.
        file, line = (str(error.file), error.line) if error.file else (file, line)
        about = "" if error.key in (None, _place_of(name)) else f"{error.key}: "
        said = f"{about}{error.problem} {error.fix or ''}"
    return ConfigError(
        f"{_place_of(name)} gives no tools: {' '.join(said.split()).rstrip('.')}.",
        fix=f"Correct it, or take it out of {key}.",
        file=file,
        line=line,
        key=key,
    )


def _where(error: BaseException) -> tuple[str | None, int | None]:
    """Return file and line of the statement that broke the import: the last one of a module."""
    if isinstance(error, SyntaxError):
        return error.filename, error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    module = next((frame for frame in reversed(frames) if frame.name == "<module>"), None)
    return (None, None) if module is None else (module.filename, module.lineno)


def _tools_in(value: object, place: str) -> list[Tool]:
    kind = type(value).__name__
    if isinstance(value, Tool):
        return [value]
    if isinstance(value, ModuleType):
        listed: object = getattr(value, "TOOLS", None)
        members: list[object] = list(vars(value).values())
        tools = [member for member in members if isinstance(member, Tool)]
        return _tools_in(listed, place) if listed is not None else _some(tools, place)
    if isinstance(value, Iterable):
        items = list(cast("Iterable[object]", value))
        tools = [item for item in items if isinstance(item, Tool)]
        if len(tools) == len(items):
            return _some(tools, place)
    raise ConfigError(
        f"gives a {kind}.",
        fix="Name a Tool, a list of them, or a module.",
        key=place,
    )


def _some(tools: list[Tool], place: str) -> list[Tool]:
    if not tools:
        raise ConfigError("has no tools.", fix="Decorate a function with @tool.", key=place)
    return tools


def _importable(tool: Tool) -> Tool:
    """Refuse a tool that another process would not find under its function's name."""
    if tool.isolation is not Isolation.PROCESS:
        return tool
    there: object = sys.modules.get(tool.function.__module__)
    for part in tool.function.__qualname__.split("."):
        there = getattr(there, part, None)
    if there is not tool:
        raise ConfigError(
            f"{tool.target} is not the tool itself, so a child process cannot import it.",
            fix="Use @tool as a decorator, so that the function's name is the tool.",
            key=tool.spec.name,
        )
    return tool


def _add_all(found: dict[str, tuple[Tool, str]], tools: Iterable[Tool], place: str) -> None:
    for tool in tools:
        _add(found, tool, place)


def _add(found: dict[str, tuple[Tool, str]], tool: Tool, place: str) -> None:
    other, other_place = found.setdefault(tool.spec.name, (tool, place))
    if other is not tool:
        raise ConfigError(
            f"two tools have this name: {other.target} from {other_place}, "
            f"and {tool.target} from {place}.",
            fix="Rename one of them, or uninstall its package.",
            key=tool.spec.name,
        )
