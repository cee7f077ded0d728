"""Read a JSON file that a person wrote, and say in which line it is wrong.

Is: strict reading and finding the line of a key. Is not: the meaning of the keys (`config.py`).
Above: `config.py`. Below: the standard library.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from toolrail.errors import ConfigError

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def read_object(text: str, *, file: Path) -> dict[str, JsonValue]:
    """Return the JSON object that `text` is.

    Raises:
        ConfigError: Not JSON (with the line), not an object, or a key twice.
    """

    def unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {}
        for key, value in pairs:
            if key in found:
                raise ConfigError("stands twice in one object.", file=file, key=key)
            found[key] = value
        return found

    try:
        value = cast(object, json.loads(text, object_pairs_hook=unique))
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"not valid JSON: {error.msg} (column {error.colno}).",
            fix="Comments and trailing commas are not JSON.",
            file=file,
            line=error.lineno,
        ) from None
    except RecursionError:
        raise ConfigError("nested too deeply.", file=file) from None
    if not isinstance(value, dict):
        raise ConfigError("the file must hold one JSON object.", file=file, line=1)
    return cast(dict[str, JsonValue], value)


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Return the 1-based line of the key at `path`, or of its nearest parent that exists.

    Args:
        text: Valid JSON.
        path: Keys and list indexes from the root.
    """
    position, value_at = 0, _skip(text, 0)
    for step in path:
        found = _find(text, value_at, step)
        if found is None:
            break
        position, value_at = found
    return text.count("\n", 0, position) + 1


def _find(text: str, at: int, step: str | int) -> tuple[int, int] | None:
    """Return where the key (or item) and its value start inside the container at `at`."""
    if text[at] not in "{[":
        return None
    is_object = text[at] == "{"
    index = 0
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        start, key = at, index
        if is_object:
            key, at = cast(tuple[int, int], _DECODER.raw_decode(text, at))
            at = _skip(text, _skip(text, at) + 1)  # past the colon
        if key == step:
            return start, at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1
    return None


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()
