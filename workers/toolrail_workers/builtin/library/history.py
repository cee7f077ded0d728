"""Answer the pages of a chat, which tile it: no message is missed, none comes twice.

Is: which messages fit a page, the cut of one that fits none. Is not: the tools' declarations
(`chat.py`) or cursors (`cursor.py`).
Above: `chat.py`. Below: `cursor.py`, `toolrail.chat`.

A message that does not fit what is left of a page waits for the next one, where it has all the
room; one that is too large for any page is cut on a page of its own.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from toolrail.chat.store import Excerpt
from toolrail.tokens import cut_at_tokens, estimate_tokens
from toolrail.tools import ToolOutput
from toolrail_schemas import JsonObject, canonical_json
from toolrail_workers.builtin.library.cursor import read_cursor, write_cursor
from toolrail_workers.builtin.library.library import BoundChat

COUNT_MAX = 50
CHARS_MAX = 20_000
_PAGE_MAX_BYTES = 56 * 1024
"""What of a result stands inline, less the room of the other fields."""
_FRAME_TOKENS = 400
"""Of the other fields, the cursor above all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSize:
    """How much one page holds."""

    count: int
    max_chars: int
    max_tokens: int
    """What the model is shown of the whole answer."""


def read_tail(chat: BoundChat, size: PageSize) -> ToolOutput:
    """Return the newest messages."""
    return _page(chat, chat.length, size)


def read_before(chat: BoundChat, cursor: str, size: PageSize) -> ToolOutput:
    """Return the messages before a cursor.

    Raises:
        ToolError: `chat.invalid_cursor` or `chat.stale_cursor`.
    """
    return _page(chat, read_cursor(chat, cursor), size)


def _page(chat: BoundChat, end: int, size: PageSize) -> ToolOutput:
    found = chat.store.read(chat.key, max(end - size.count, 0), end, max_chars=size.max_chars + 1)
    entries: list[JsonObject] = []
    chars, room = size.max_chars, _Room(size.max_tokens)
    for message in reversed(found):
        whole = _entry(message, message.text)
        if message.chars <= chars and room.takes(whole):
            chars -= message.chars
            entries.append(whole)
            continue
        if not entries:
            entries.append(_cut(message, chars, room))
        break
    entries.reverse()
    first = end - len(entries)
    facts: JsonObject = {
        "messages": list[JsonValue](entries),
        "before_cursor": write_cursor(chat, first) if entries and first > 0 else None,
        "total_messages": chat.length,
    }
    refs = tuple(str(entry["rest"]) for entry in entries if "rest" in entry)
    return ToolOutput(
        content=ToolOutput.json(facts).content,
        structured=facts,
        resource_refs=refs,
        truncated=bool(refs),
    )


class _Room:
    """What is left of the tokens and bytes of an answer."""

    def __init__(self, max_tokens: int) -> None:
        self.tokens = max(max_tokens - _FRAME_TOKENS, max_tokens // 2)
        self.bytes = _PAGE_MAX_BYTES

    def takes(self, entry: JsonObject) -> bool:
        """Return whether there was room for it, which is then taken."""
        text = canonical_json(entry).decode()
        tokens, size = estimate_tokens(text) + 1, len(text.encode()) + 1
        if tokens > self.tokens or size > self.bytes:
            return False
        self.tokens -= tokens
        self.bytes -= size
        return True


def _cut(message: Excerpt, max_chars: int, room: _Room) -> JsonObject:
    """Return as much of the message as there is room for; at least a character."""
    kept = min(max_chars, len(message.text))
    kept = min(kept, max(cut_at_tokens(message.text, room.tokens), 1))
    while kept > 1 and not room.takes(_entry(message, message.text[:kept])):
        # Escapes in JSON take more than the characters themselves.
        kept = kept * 4 // 5
    return _entry(message, message.text[:kept])


def _entry(message: Excerpt, text: str) -> JsonObject:
    entry: JsonObject = {"index": message.index, "role": message.role.value}
    if message.name is not None:
        entry["name"] = message.name
    entry["text"] = text
    if len(text) < message.chars:
        entry["truncated"] = True
        entry["rest"] = f"chat:current#{message.index}:chars={len(text)}..{message.chars}"
    return entry
