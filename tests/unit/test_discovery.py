"""Installed tools are found; a bad plugin hides nothing, a bad module of the settings stops."""

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


BROKEN = [
    ("raise RuntimeError('boom')", "RuntimeError: boom", 1),
    ("import sys\nsys.exit(3)", "SystemExit: 3", 2),
    ("x = 1\ndef broken(:", "SyntaxError", 2),
    ("x = 1", "has no tools", None),
    (
        "from toolrail.tools import tool\ndef f(x: int): 'Do.'\ng = tool('a.b')(f)\n",
        "Use @tool as a decorator",
        None,
    ),
    ("TOOLS = [1]", "gives a list", None),
    ("from toolrail.tools import tool\n\n@tool('a.b')\ndef f(x): 'Do.'\n", "no type", 3),
    ("\nimport no_such_package_here", "No module named 'no_such_package_here'", 2),
    ("import json\n\njson.loads('{')", "JSONDecodeError", 3),
]
"""What a module says, what is told about it, and the line that is to blame."""


@pytest.mark.parametrize(("text", "words", "line"), BROKEN)
def test_a_named_module_without_tools_is_a_wrong_setting(
    plugins: Path, text: str, words: str, line: int | None
) -> None:
    """The variable, the module, the exception and its line stand in one sentence with a remedy."""
    write(plugins, "plug_bad", text)
    write(plugins, "plug_good", GOOD.format(name="bee.fly"))

    with pytest.raises(ConfigError) as caught:
        discover_tools(modules=["plug_good", "plug_bad"], entry_points=[])

    told = str(caught.value)
    place = "" if line is None else f"{plugins / 'plug_bad.py'}:{line}: "
    assert told.startswith(f"{place}TOOLRAIL_TOOL_MODULES: module 'plug_bad' gives no tools: ")
    assert words in told
    assert told.endswith(" Correct it, or take it out of TOOLRAIL_TOOL_MODULES.")
    assert "\n" not in told


def test_the_line_is_that_of_the_module_that_a_named_one_imports(plugins: Path) -> None:
    """Who reads the error opens the file that has to change."""
    write(plugins, "plug_inner", "\n\nraise KeyError('deep')")
    write(plugins, "plug_bad", "import plug_inner")

    with pytest.raises(ConfigError) as caught:
        discover_tools(modules=["plug_bad"], entry_points=[])

    assert str(caught.value).startswith(f"{plugins / 'plug_inner.py'}:3: ")


@pytest.mark.parametrize("name", ["no_such_module_here", "plug_good.deeper", "no_such.module"])
def test_a_missing_module_is_told_with_where_it_was_looked_for(plugins: Path, name: str) -> None:
    """A typing mistake in the variable is no mistake of a module: no line is to blame."""
    write(plugins, "plug_good", GOOD.format(name="bee.fly"))

    with pytest.raises(ConfigError) as caught:
        discover_tools(modules=[name], entry_points=[])

    assert str(caught.value) == (
        f"TOOLRAIL_TOOL_MODULES: there is no module {name!r}. Correct the name; "
        f"it is looked for in {Path.cwd()} and in what is installed."
    )


def test_a_module_is_found_in_the_working_folder(
    plugins: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a worker is started, a script's path or `python -m`."""
    folder = tmp_path_factory.mktemp("here")
    write(folder, "plug_here", GOOD.format(name="bee.fly"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(plugins))

    found = discover_tools(modules=["plug_here"], entry_points=[])

    assert list(found.tools) == ["bee.fly"]


@pytest.mark.parametrize(("text", "words", "line"), BROKEN)
def test_a_broken_plugin_is_reported_and_the_others_are_found(
    plugins: Path, text: str, words: str, line: int | None
) -> None:
    """Nobody named it: whatever an installed package does, the good ones are still there."""
    write(plugins, "plug_bad", text)
    write(plugins, "plug_good", GOOD.format(name="bee.fly"))

    found = discover_tools(
        modules=["plug_good"], entry_points=[point("bad", "plug_bad"), point("good", "plug_good")]
    )

    assert list(found.tools) == ["bee.fly"]
    (broken,) = found.broken
    assert broken.place == "entry point 'bad' (plug_bad)"
    assert words in broken.error
