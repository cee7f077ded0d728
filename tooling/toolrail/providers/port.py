"""Say what a model provider is to Toolrail.

Is: the port each provider implements in a file of its own, and what it says of itself. Is not: a
client of any provider; JSON goes in and comes out. Above: `conversation.py`, agent services. Below:
`turn.py`, `toolbox.py`, `decoding.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from toolrail.providers.decoding import DecodeContext
from toolrail.providers.rendering import Media
from toolrail.providers.toolbox import ToolBox, ToolOptions
from toolrail.providers.turn import Turn
from toolrail_schemas import JsonObject, ToolResult, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a provider can do with tools. Source: semantics 10, providers.md 1."""

    native_deferral: bool
    """Tools can be declared and left for a search to load."""
    native_examples: bool
    strict_schema: bool
    parallel_calls: bool
    name_regex: str
    max_tools: int
    """Loaded tools in one request."""
    max_calls: int | None
    """Calls in one assistant turn that is sent back; None when no limit is known."""
    media_in_results: frozenset[str]
    """MIME types a result itself can carry."""


class Stream(Protocol):
    """Puts a streamed answer together from the provider's raw events."""

    def feed(self, event: object) -> None:
        """Take the next event: a dict, the text of one, or an SDK's object; unknown ones pass."""
        ...

    def turn(self, context: DecodeContext) -> Turn:
        """Return the answer so far as a turn; calls without their end marker are refused."""
        ...


class Provider(Protocol):
    """One provider's API, as far as tools go."""

    @property
    def name(self) -> str:
        """A word such as `anthropic`."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the API can do."""
        ...

    def encode_tools(self, specs: Sequence[ToolSpec], options: ToolOptions) -> ToolBox:
        """Return the tools for a request's `tools`."""
        ...

    def decode_calls(self, response: Mapping[str, JsonValue], context: DecodeContext) -> Turn:
        """Return an answer as a turn; never raises for what a model or server wrote."""
        ...

    def stream(self) -> Stream:
        """Return what puts one streamed answer together."""
        ...

    def encode_turn(self, turn: Turn, tools: ToolBox | None = None) -> list[JsonObject]:
        """Return the assistant's own messages: as they came, or rebuilt from another provider."""
        ...

    def encode_results(
        self,
        turn: Turn,
        results: Sequence[ToolResult],
        *,
        media: Media,
        tools: ToolBox | None = None,
    ) -> list[JsonObject]:
        """Return the messages that answer every call of the turn, in order."""
        ...

    def encode_exchange(
        self,
        turn: Turn,
        results: Sequence[ToolResult],
        *,
        media: Media,
        tools: ToolBox | None = None,
    ) -> list[JsonObject]:
        """Return turn and results as the messages to append before the next request."""
        ...
