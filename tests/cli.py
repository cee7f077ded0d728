"""Type commands of `toolrail` in a test, and read what they say.

Is: the real program in this process, with the settings of the test in its environment. Is not: a
child process, which the tests of the process edge start themselves.
Above: tests of commands. Below: `toolrail.cli.main`.
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest
import typer
from typer.core import TyperGroup, TyperOption

from toolrail.cli.catalogue import all_commands
from toolrail.cli.main import build_app, run
from toolrail.settings import Settings


@dataclass(frozen=True)
class Said:
    """What one command line answered."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.splitlines()

    def rows(self) -> list[dict[str, object]]:
        """Return the JSON lines of standard output."""
        return [cast("dict[str, object]", json.loads(line)) for line in self.lines]

    def row(self) -> dict[str, object]:
        """Return the one JSON object of standard output."""
        [found] = self.rows()
        return found


def all_leaves() -> dict[str, frozenset[str]]:
    """Return every command of the program, such as `dlq list`, with the options it has."""
    found: dict[str, frozenset[str]] = {}
    for name in all_commands():
        top = typer.main.get_command(build_app([name], all_commands()))
        assert isinstance(top, TyperGroup)
        command = top.commands[name]
        inner = command.commands if isinstance(command, TyperGroup) else {"": command}
        for word, leaf in inner.items():
            options = {
                option
                for parameter in leaf.params
                if isinstance(parameter, TyperOption) and not parameter.hidden
                for option in parameter.opts
            }
            found[f"{name} {word}".strip()] = frozenset(options)
    return found


class Cli:
    """The program, as somebody types it."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> Said:
        """Run one command line."""
        self._capsys.readouterr()
        code = run(list(words))
        captured = self._capsys.readouterr()
        return Said(code, captured.out, captured.err)

    async def within(self, *words: str) -> Said:
        """Run one command line from a test that has a loop of its own."""
        return await asyncio.to_thread(self, *words)


@pytest.fixture
def cli(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Cli]:
    """Let commands find the test's Redis, and leave logging as it was."""
    for name, value in settings.to_env().items():
        monkeypatch.setenv(name, value)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield Cli(capsys)
    logging.captureWarnings(capture=False)
    logging.disable(logging.NOTSET)
    root.handlers[:] = handlers
    root.setLevel(level)
