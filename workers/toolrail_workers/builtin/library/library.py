"""Give one call what its run may read, and nothing else.

Is: `Library`, through which a tool in a thread reaches chat, skills and world info; the chat is
always the run's own. Is not: a tool, or a store.
Above: the three tool modules. Below: `stores.py`, `toolrail.chat`.
"""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

from toolrail.chat import ChatKey, ChatStore
from toolrail.errors import SystemFailure, ToolError
from toolrail.tools import ToolContext
from toolrail_workers.builtin.library.stores import Stores

T = TypeVar("T")


class Ask(Protocol):
    """Runs something on the worker's loop and waits for it, from a thread."""

    def __call__(self, question: Coroutine[object, object, T], /) -> T:
        """Return what it returned."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundChat:
    """The chat of a run, as far as it exists for it."""

    store: ChatStore
    key: ChatKey
    length: int
    """Messages that exist for the run."""
    secret: bytes = field(repr=False)


@dataclass(kw_only=True)
class Library:
    """What one call may read. Belongs to the call's thread."""

    stores: Stores
    run_id: str
    tenant: str
    ask: Ask

    @cached_property
    def chat(self) -> BoundChat:
        """The run's chat.

        Raises:
            ToolError: `chat.not_bound`, or `chat.unavailable`.
        """
        found = self.ask(self.stores.facts.chat_of(self.run_id))
        if found is None:
            raise ToolError(
                "chat.not_bound",
                "This run has no chat.",
                next_action="Go on without the chat's history.",
            )
        chat, said = found
        store, key = self.stores.chats, ChatKey(self.tenant, chat)
        there = store.count(key)
        if said is None:
            said = self.ask(self.stores.facts.first(self.run_id, "chat_messages", there))
        # A chat may have been shortened since.
        return BoundChat(store=store, key=key, length=min(said, there), secret=self.stores.secret)


def library_of(context: ToolContext) -> Library:
    """Return what the call may read.

    Raises:
        SystemFailure: The worker gave the call none.
    """
    if not isinstance(context.library, Library):
        raise SystemFailure("tool.internal_error", "The worker opened no library for this call.")
    return context.library
