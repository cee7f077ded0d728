"""Read the messages of a chat from a file with a JSON object on each line.

Is: the two forms that are in use: `role` and `content`, as chat APIs have it, and `mes` with
`is_user`, as SillyTavern writes it, whose header line is no message. Is not: storing.
Above: `toolrail chat import`. Below: `store.py`, orjson.

Nothing is held but one line, so a file may have any size.
"""

from collections.abc import Iterator
from typing import BinaryIO, cast

import orjson
from pydantic import JsonValue

from toolrail.chat.store import MESSAGE_MAX_BYTES, Message, Role
from toolrail.errors import ConfigError
from toolrail_schemas import JsonObject

LINE_MAX_BYTES = 6 * MESSAGE_MAX_BYTES + 64 * 1024
"""A character may take six bytes as an escape; the rest is for what we do not read."""
TOLD_MAX = 20
"""Bad lines that are named; their number is told too."""
_ROLES = {role.value: role for role in Role} | {"developer": Role.SYSTEM}
_BOM = b"\xef\xbb\xbf"


class BadLine(Exception):
    """A line is no message. Control flow: `read_jsonl` tells all of them together."""


def read_jsonl(file: BinaryIO, *, name: str) -> Iterator[Message]:
    """Yield the messages of a file, in order.

    After the first bad line nothing more is yielded; the rest is only looked through.

    Args:
        file: Opened for reading bytes.
        name: What errors call it.

    Raises:
        ConfigError: At the end, when lines are bad; each is named by its number, the first 20
            with what is wrong.
    """
    problems: list[str] = []
    bad = 0
    for number, line in _lines(file):
        try:
            message = _message(line, is_first=number == 1)
        except BadLine as error:
            bad += 1
            if len(problems) < TOLD_MAX:
                problems.append(f"line {number}: {error}")
            continue
        if message is not None and not bad:
            yield message
    if bad:
        more = [f"and {bad - TOLD_MAX} more"] if bad > TOLD_MAX else []
        count = "1 line is" if bad == 1 else f"{bad} lines are"
        raise ConfigError(
            f"{count} no message: " + "; ".join([*problems, *more]) + ".",
            fix="Correct them and import the file again; nothing of it was stored.",
            file=name,
        )


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines with their numbers; None for one that is too long to be read."""
    number = 0
    while line := file.readline(LINE_MAX_BYTES + 1):
        number += 1
        if len(line) <= LINE_MAX_BYTES or line.endswith(b"\n"):
            yield number, line.removeprefix(_BOM) if number == 1 else line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(LINE_MAX_BYTES)
        yield number, None


def _message(line: bytes | None, *, is_first: bool) -> Message | None:
    """Return the message of a line, or None for an empty line or a header.

    Raises:
        BadLine: It is neither.
    """
    if line is None:
        raise BadLine(f"is longer than {LINE_MAX_BYTES} bytes")
    if not line.strip():
        return None
    try:
        value = cast("JsonValue", orjson.loads(line))
    except orjson.JSONDecodeError as error:
        raise BadLine(f"is not JSON ({error.msg}, column {error.colno})") from None
    if not isinstance(value, dict):
        raise BadLine("is JSON but no object")
    if is_first and not ({"role", "content", "mes"} & value.keys()):
        return None
    message = _tavern(value) if "mes" in value else _plain(value)
    problem = message.problem()
    if problem is not None:
        raise BadLine(problem)
    return message


def _plain(value: JsonObject) -> Message:
    role = value.get("role")
    known = _ROLES.get(role) if isinstance(role, str) else None
    if known is None:
        raise BadLine("has no `role` that is user, assistant or system")
    return Message(role=known, content=_text(value.get("content")), name=_name(value))


def _text(content: JsonValue) -> str:
    """Return plain content, or the texts of content that is a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadLine("has no `content` that is text")
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _tavern(value: JsonObject) -> Message:
    content = value["mes"]
    if not isinstance(content, str):
        raise BadLine("has a `mes` that is no text")
    if value.get("is_user") is True:
        role = Role.USER
    else:
        role = Role.SYSTEM if value.get("is_system") is True else Role.ASSISTANT
    return Message(role=role, content=content, name=_name(value))


def _name(value: JsonObject) -> str | None:
    name = value.get("name")
    if name is None or name == "":
        return None
    if not isinstance(name, str):
        raise BadLine("has a `name` that is no text")
    return name
