"""Hold what a worker reads for all its runs.

Is: `Stores`, made of the settings, and which tools need it. Is not: what one run may read of it
(`library.py`).
Above: `executor.py`, `library.py`. Below: `facts.py`, `toolrail.chat`.
"""

import hmac
from dataclasses import dataclass

from toolrail.chat import ChatStore, open_chat_store
from toolrail.settings import Settings
from toolrail.tools import Tool
from toolrail_workers.builtin.library.facts import RunFacts

_PACKAGE = "toolrail_workers.builtin.library."


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """What a worker reads for all runs; one for each worker."""

    facts: RunFacts
    secret: bytes
    """Key of cursors; made of the cell's secret."""
    chats: ChatStore

    def close(self) -> None:
        """Give back what is open."""
        self.chats.close()


def open_stores(settings: Settings, facts: RunFacts) -> Stores:
    """Return the stores that the settings name; nothing is connected before it is used.

    Raises:
        ConfigError: A setting names what this installation has no driver for.
    """
    # A worker has a secret; a trial has no cell, and nobody to keep cursors from.
    secret = b"trial" if settings.secret is None else settings.require_secret()
    return Stores(facts=facts, secret=cursor_secret(secret), chats=open_chat_store(settings))


def is_of_library(tool: Tool) -> bool:
    """Return whether the tool reads the library, and so has no use for a workspace."""
    return tool.function.__module__.startswith(_PACKAGE)


def cursor_secret(secret: bytes) -> bytes:
    """Return the key of cursors; it opens nothing else that the cell's secret signs."""
    return hmac.digest(secret, b"toolrail chat cursor 1", "sha256")
