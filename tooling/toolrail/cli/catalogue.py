"""Know every command by name without importing it.

Is: the table of our own commands, and those that other packages give through the entry-point
group `toolrail.commands`. Is not: any command.
Above: `main.py`. Below: importlib.

Why lazily: one command needs a web of libraries that another does not, and `toolrail --help` must
answer at once. This is the one place where modules are imported by name at run time.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

import typer

GROUP = "toolrail.commands"

Command = typer.Typer | Callable[..., None]
"""A group of commands, or the function of one."""


class Entry(Protocol):
    """A command that is known by name and help, and loaded only when it is used."""

    @property
    def name(self) -> str:
        """The word a user types."""
        ...

    def help(self) -> str:
        """Return one sentence for the list of commands."""
        ...

    def load(self) -> Command:
        """Import the command."""
        ...


@dataclass(frozen=True)
class OwnCommand:
    """A command of this package."""

    name: str
    target: str
    sentence: str

    def help(self) -> str:
        """Return one sentence for the list of commands."""
        return self.sentence

    def load(self) -> Command:
        """Import the command."""
        return load(self.target)


@dataclass(frozen=True)
class ForeignCommand:
    """A command that another installed distribution gives."""

    entry_point: EntryPoint

    @property
    def name(self) -> str:
        """The word a user types."""
        return self.entry_point.name

    def help(self) -> str:
        """Return the first line of its documentation; says so when it cannot be imported."""
        try:
            command = self.load()
        except ImportError as error:
            return f"(cannot be loaded: {error})"
        text = command.info.help if isinstance(command, typer.Typer) else command.__doc__
        return text.strip().splitlines()[0] if isinstance(text, str) and text.strip() else ""

    def load(self) -> Command:
        """Import the command."""
        return cast("Command", self.entry_point.load())


OWN_COMMANDS = (
    OwnCommand("up", "toolrail.cli.up:up", "Run a whole cluster on this machine."),
    OwnCommand("call", "toolrail.cli.call:call", "Call one tool through the cluster."),
    OwnCommand("run", "toolrail.cli.run:app", "Open, show, complete and cancel runs."),
    OwnCommand("runs", "toolrail.cli.runs:runs", "List runs: open, and ended lately."),
    OwnCommand("journal", "toolrail.cli.journal:journal", "Print the journal of a run."),
    OwnCommand(
        "approvals",
        "toolrail.cli.approvals:app",
        "Decide about calls that wait for a person.",
    ),
    OwnCommand("chat", "toolrail.cli.chat:app", "Import the chats that runs can read."),
    OwnCommand("policy", "toolrail.cli.policy:app", "Explain what the policy decides and why."),
    OwnCommand("exporter", "toolrail.cli.exporter:exporter", "Show the totals to Prometheus."),
    OwnCommand("queues", "toolrail.cli.queues:queues", "Show what waits, and since when."),
    OwnCommand("workers", "toolrail.cli.workers:workers", "List the workers and what they do."),
    OwnCommand("drain", "toolrail.cli.drain:drain", "Ask workers to claim no more calls."),
    OwnCommand("dlq", "toolrail.cli.dlq:app", "Look after calls that lost their last worker."),
    OwnCommand("doctor", "toolrail.cli.doctor:doctor", "Check this machine and its settings."),
    OwnCommand("health", "toolrail.cli.health:health", "Ask this container's process if it lives."),
    OwnCommand("version", "toolrail.cli.version:version", "Print the versions in use."),
)


def load(target: str) -> Command:
    """Import `module:attribute`."""
    module, _, attribute = target.partition(":")
    return cast("Command", getattr(importlib.import_module(module), attribute))


def all_commands() -> dict[str, Entry]:
    """Return every command by name; our own win over foreign ones of the same name."""
    found: dict[str, Entry] = {
        point.name: ForeignCommand(point) for point in entry_points(group=GROUP)
    }
    found.update({command.name: command for command in OWN_COMMANDS})
    return dict(sorted(found.items()))
