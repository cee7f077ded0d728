"""Keep one conversation with a model: five lines from its answer to governed results.

Is: the counter of answers, the ids taken, and the tools as they were last declared. Is not: the
messages, which the agent service keeps, or dispatching. Above: agent services. Below: `port.py`.

    chat = Conversation(Anthropic(), run_id=run.id)
    tools = chat.tools(await run.tools())
    turn = chat.decode(response)
    results = await run.call_many(turn.requests)
    messages += chat.encode(turn, results)
"""

from collections.abc import Iterable, Sequence

from toolrail.providers.decoding import DecodeContext
from toolrail.providers.port import Provider, Stream
from toolrail.providers.rendering import Media
from toolrail.providers.toolbox import ToolBox, ToolOptions
from toolrail.providers.turn import Turn
from toolrail.providers.wire import raw_response
from toolrail_schemas import JsonObject, ToolResult, ToolSpec

_NO_MEDIA: Media = {}


class Conversation:
    """One run's conversation with a model; the provider may change in the middle of it."""

    def __init__(self, provider: Provider, *, run_id: str, first_turn: int = 0) -> None:
        self.provider = provider
        self._run_id = run_id
        self._turn = first_turn
        self._taken: set[str] = set()
        self._toolbox: ToolBox | None = None

    @property
    def toolbox(self) -> ToolBox | None:
        """The tools as last declared, with what their schemas lost; None before `tools`."""
        return self._toolbox

    def tools(
        self, specs: Sequence[ToolSpec], options: ToolOptions | None = None
    ) -> list[JsonObject]:
        """Return the tools for the next request; the list is the caller's own."""
        self._toolbox = self.provider.encode_tools(specs, options or ToolOptions())
        return self._toolbox.tools

    def decode(self, response: object) -> Turn:
        """Return the model's answer as a turn.

        Args:
            response: The provider's JSON as a dict, or its SDK's object.

        Raises:
            TypeError: It is neither.
        """
        return self._keep(self.provider.decode_calls(raw_response(response), self._context()))

    def stream(self) -> Stream:
        """Return what puts a streamed answer together: `feed` it events, then `finish` it."""
        return self.provider.stream()

    def finish(self, stream: Stream) -> Turn:
        """Return a streamed answer as a turn."""
        return self._keep(stream.turn(self._context()))

    def decode_events(self, events: Iterable[object]) -> Turn:
        """Return the answer that a stream's events make."""
        stream = self.stream()
        for event in events:
            stream.feed(event)
        return self.finish(stream)

    def encode(
        self, turn: Turn, results: Sequence[ToolResult], *, media: Media | None = None
    ) -> list[JsonObject]:
        """Return the messages to append: the model's own, then the answer to every call.

        Args:
            turn: From this conversation, with whatever provider.
            results: Of `turn.requests`, in any order.
            media: Bytes of images by SHA-256, to be shown to the model; see `image_shas`.
        """
        return self.provider.encode_exchange(
            turn, results, media=_NO_MEDIA if media is None else media, tools=self._toolbox
        )

    def switch(self, provider: Provider) -> None:
        """The next request goes to another provider or model; encode the earlier turns again."""
        self.provider = provider
        self._toolbox = None

    def _context(self) -> DecodeContext:
        return DecodeContext(
            run_id=self._run_id, turn=self._turn, tools=self._toolbox, taken=self._taken
        )

    def _keep(self, turn: Turn) -> Turn:
        self._turn += 1
        self._taken.update(call.wire_id for call in turn.calls if call.wire_id)
        return turn
