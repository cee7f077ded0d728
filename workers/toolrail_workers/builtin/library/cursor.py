"""Write and read the cursors of chat pages, which nobody else can make.

Is: an HMAC over the place and over what is there. Is not: paging (`history.py`).
Above: `history.py`. Below: the standard library.

A cursor says: before this index, of this chat, of the length that this run sees, with this message
there.
"""

import base64
import binascii
import hashlib
import hmac
import json
from typing import cast

from pydantic import JsonValue

from toolrail.errors import ToolError
from toolrail_workers.builtin.library.library import BoundChat

CURSOR_MAX_CHARS = 512
_VERSION = 1
_MAC_BYTES = 16
_AGAIN = "Start again with chat.read_history_tail."


def write_cursor(chat: BoundChat, before: int) -> str:
    """Return the cursor of the page before the message at `before`, which must be there."""
    body = json.dumps(
        {
            "v": _VERSION,
            "chat_digest": _chat_digest(chat),
            "snapshot_len": chat.length,
            "before_index": before,
            "anchor_sha": _anchor(chat, before),
        },
        separators=(",", ":"),
    ).encode()
    mac = hmac.digest(chat.secret, body, "sha256")[:_MAC_BYTES]
    return base64.urlsafe_b64encode(mac + body).decode().rstrip("=")


def read_cursor(chat: BoundChat, cursor: str) -> int:
    """Return the index before which the page ends.

    Raises:
        ToolError: `chat.invalid_cursor`: not made by us, or for another chat or version.
            `chat.stale_cursor`: the chat is not what it was.
    """
    fields = _opened(chat, cursor)
    if fields.get("v") != _VERSION or fields.get("chat_digest") != _chat_digest(chat):
        raise _invalid()
    before = fields.get("before_index")
    if not isinstance(before, int):
        raise _invalid()
    if fields.get("snapshot_len") != chat.length or fields.get("anchor_sha") != _anchor(
        chat, before
    ):
        raise ToolError(
            "chat.stale_cursor",
            "The chat changed since the cursor was made.",
            next_action=_AGAIN,
        )
    return before


def _opened(chat: BoundChat, cursor: str) -> dict[str, JsonValue]:
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _invalid() from None
    mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    ours = hmac.digest(chat.secret, body, "sha256")[:_MAC_BYTES]
    # Base64 has several spellings of some ends; only ours is a cursor.
    canonical = base64.urlsafe_b64encode(raw).decode().rstrip("=") == cursor
    if not (hmac.compare_digest(mac, ours) and canonical):
        raise _invalid()
    return cast("dict[str, JsonValue]", json.loads(body))


def _chat_digest(chat: BoundChat) -> str:
    name = f"{chat.key.tenant}\x00{chat.key.chat}"
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _anchor(chat: BoundChat, index: int) -> str:
    """Return a digest of one message; another one when it is gone."""
    found = chat.store.read(chat.key, index, index + 1, max_chars=2**31 - 1)
    said = [f"{one.role}\x00{one.name or ''}\x00{one.text}" for one in found]
    return hashlib.sha256("".join(said).encode()).hexdigest()[:16]


def _invalid() -> ToolError:
    return ToolError("chat.invalid_cursor", "The cursor is not valid.", next_action=_AGAIN)
