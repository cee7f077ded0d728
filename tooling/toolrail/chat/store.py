"""Say what a chat store is, and the values that cross that port.

Is: the port, and the limits that hold in every store. Is not: a store (`sqlite.py`,
`postgres.py`). All of it blocks; a tool calls it from a thread.
Above: chat tools, `toolrail chat`, agent services. Below: `query.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from toolrail.chat.query import ChatQuery
from toolrail.errors import ConfigError, ToolError

MESSAGE_MAX_BYTES = 256 * 1024
"""Of one message's content in UTF-8. What PostgreSQL indexes of a text ends at 1 MiB of words."""
CHAT_MAX_MESSAGES = 1_000_000_000
"""What a ref of a message can count to."""
NAME_MAX_CHARS = 200
ID_MAX_CHARS = 200
RANKED_MAX = 10_000
"""Messages that are ranked for one query, the newest first. A word that stands in more of them
tells little, and ranking them all costs more than a search may."""


class Role(StrEnum):
    """Who said a message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class ChatKey:
    """Which chat. Chats of different tenants never meet, whatever they are called."""

    tenant: str
    chat: str

    def __post_init__(self) -> None:
        """Refuse a name that cannot stand in a store or a line of text."""
        if not 0 < len(self.chat) <= ID_MAX_CHARS or not self.chat.isprintable():
            raise ConfigError(
                "A chat's id is 1 to 200 printable characters.", fix="Use another id."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, as it is stored."""

    role: Role
    content: str
    name: str | None = None
    """Who speaks, where a chat has several people or characters."""

    def problem(self) -> str | None:
        """Return why no store takes this message, one clause; None when every store does."""
        try:
            size = len(self.content.encode())
            (self.name or "").encode()
        except UnicodeEncodeError:
            return "holds a lone surrogate, which is not valid Unicode"
        if size > MESSAGE_MAX_BYTES:
            return f"has {size} bytes of content, more than {MESSAGE_MAX_BYTES}"
        if "\x00" in self.content or "\x00" in (self.name or ""):
            return "holds a NUL character"
        if self.name is not None and not 0 < len(self.name) <= NAME_MAX_CHARS:
            return f"has a name that is not 1 to {NAME_MAX_CHARS} characters"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """One message as it is read: its place, and the start of its content."""

    index: int
    """From 0."""
    role: Role
    name: str | None
    text: str
    """The content, or its first characters."""
    chars: int
    """Of the whole content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look."""

    start: int
    """First index."""
    end: int
    """The index after the last; never beyond what the run may see."""
    role: Role | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A message that was found."""

    message: Excerpt
    """With all of its content."""
    score: float
    """BM25, more is better."""


class ChatStore(Protocol):
    """Chats by key, each a list of messages from index 0. Usable from many threads."""

    def count(self, chat: ChatKey) -> int:
        """Return how many messages the chat has; 0 for one that nobody wrote to."""
        ...

    def append(self, chat: ChatKey, messages: Iterable[Message], *, anew: bool = False) -> int:
        """Add messages at the end, all or none, and return how many the chat has then.

        Args:
            chat: Which; made when it is new.
            messages: Read once and never held together; may be any number. What reading them
                raises comes through, and nothing is added.
            anew: Put them in the place of all there are.

        Raises:
            ConfigError: A message that `Message.problem` names.
        """
        ...

    def edit(self, chat: ChatKey, index: int, message: Message) -> None:
        """Put another message in the place of one.

        Raises:
            ConfigError: There is no such message, or `Message.problem` names this one.
        """
        ...

    def read(self, chat: ChatKey, start: int, end: int, *, max_chars: int) -> Sequence[Excerpt]:
        """Return the messages from `start` up to `end`, in order, each cut to `max_chars`."""
        ...

    def search(
        self, chat: ChatKey, query: ChatQuery, scope: Scope, *, limit: int
    ) -> Sequence[Match]:
        """Return the best matches: by BM25, of equals the newest first."""
        ...

    def close(self) -> None:
        """Give back what is open."""
        ...


def checked(message: Message) -> Message:
    """Return the message if every store takes it.

    Raises:
        ConfigError: With the reason.
    """
    problem = message.problem()
    if problem is not None:
        raise ConfigError(f"A message {problem}.", fix="Correct it; nothing was stored.")
    return message


def no_message(index: int) -> ConfigError:
    """Return the error for an index that the chat does not have."""
    return ConfigError(f"The chat has no message {index}.", fix="Count its messages first.")


def unavailable() -> ToolError:
    """Return what a model is told when the store does not answer."""
    return ToolError(
        "chat.unavailable",
        "The chat store does not answer.",
        next_action="Go on without the chat's history, or try once more later.",
    )
