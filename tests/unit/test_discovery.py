"""Installed tools are found; one bad plugin is reported and hides nothing."""

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolrail.discovery import ENTRY_POINT_GROUP, discover_tools
from toolrail.errors import ConfigError

GOOD = '''
from toolrail.tools import tool

@tool("{name}", read_only=True)
def act(x: int) -> int:
    """Act."""
    return x
'''


@pytest.fixture
def plugins(tmp_path: Path) -> Iterator[Path]:
    """A folder on the import path for modules of one test."""
    before = set(sys.modules)
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        del sys.modules[name]


def point(name: str, value: str) -> importlib.metadata.EntryPoint:
    return importlib.metadata.EntryPoint(name, value, ENTRY_POINT_GROUP)


def write(folder: Path, module: str, text: str) -> None:
    (folder / f"{module}.py").write_text(text)


def test_tools_come_from_entry_points_and_modules(plugins: Path) -> None:
    """A value may be a tool, a list, or a module; the table is sorted by name."""
    write(plugins, "plug_one", GOOD.format(name="zoo.feed"))
    write(plugins, "plug_list", GOOD.format(name="ant.walk") + "\nEVERY = [act]\n")
    write(plugins, "plug_module", GOOD.format(name="bee.fly"))

    found = discover_tools(
        modules=["plug_module"],
        entry_points=[point("one", "plug_one:act"), point("list", "plug_list:EVERY")],
    )

    assert list(found.tools) == ["ant.walk", "bee.fly", "zoo.feed"]
    assert found.broken == ()


def test_a_tool_found_twice_is_one_tool(plugins: Path) -> None:
    """Naming a module that is also an entry point is no conflict."""
    write(plugins, "plug_one", GOOD.format(name="zoo.feed"))

    found = discover_tools(modules=["plug_one"], entry_points=[point("one", "plug_one:act")])

    assert list(found.tools) == ["zoo.feed"]


def test_two_tools_of_one_name_stop_the_start_and_both_are_named(plugins: Path) -> None:
    """Which of two functions runs is never left to the order of installation."""
    write(plugins, "plug_one", GOOD.format(name="zoo.feed"))
    write(plugins, "plug_two", GOOD.format(name="zoo.feed"))

    with pytest.raises(ConfigError) as caught:
        discover_tools(modules=["plug_two"], entry_points=[point("one", "plug_one:act")])

    for words in ("zoo.feed", "plug_one:act", "plug_two:act", "entry point 'one'", "module"):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import sys\nsys.exit(3)", "SystemExit"),
        ("def broken(:", "SyntaxError"),
        ("x = 1", "has no tools"),
        (
            "from toolrail.tools import tool\ndef f(x: int): 'Do.'\ng = tool('a.b')(f)\n",
            "Use @tool as a decorator",
        ),
        ("TOOLS = [1]", "gives a list"),
        ("from toolrail.tools import tool\n@tool('a.b')\ndef f(x): 'Do.'\n", "no type"),
    ],
)
def test_a_broken_plugin_is_reported_and_the_others_are_found(
    plugins: Path, text: str, words: str
) -> None:
    """Whatever a module does at import, the good ones are still there."""
    write(plugins, "plug_bad", text)
    write(plugins, "plug_good", GOOD.format(name="bee.fly"))

    found = discover_tools(modules=["plug_bad", "plug_good"], entry_points=[])

    assert list(found.tools) == ["bee.fly"]
    (broken,) = found.broken
    assert broken.place == "module 'plug_bad'"
    assert words in broken.error


def test_a_missing_module_is_a_broken_plugin() -> None:
    """A typing mistake in TOOLRAIL_TOOL_MODULES is told, not fatal."""
    found = discover_tools(modules=["no_such_module_here"], entry_points=[])

    assert found.tools == {}
    assert "no_such_module_here" in found.broken[0].error
