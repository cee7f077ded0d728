"""Give every wire model one behaviour: frozen, closed, finite, hashable as JSON.

Is: `WireModel`, the shared field types, canonical JSON. Is not: any model of its own.
Above: every other module of this package. Below: pydantic.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool, StringConstraints
from pydantic_core import PydanticSerializationError, to_json

KIB = 1024
MIB = 1024 * KIB

JsonObject = dict[str, JsonValue]

# pydantic refuses lone surrogates only in strings that carry a constraint, so every free string
# of a wire model uses one of these aliases instead of a bare `str`.
ShortText = Annotated[str, StringConstraints(max_length=1000)]
Label = Annotated[
    str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")
]
Slug = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
CallId = Annotated[str, StringConstraints(min_length=1, max_length=256)]
"""A provider's id of a call, opaque; `ToolCall` also checks its bytes and refuses NUL."""
CalledName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
"""The name in a call: canonical, or whatever a model made up."""
RunId = Annotated[str, StringConstraints(pattern=r"^run_[0-7][0-9A-HJKMNP-TV-Z]{25}$")]
CallKey = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
ErrorCode = Annotated[
    str, StringConstraints(max_length=128, pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")
]
"""How a call failed: a code of the table, or a tool's own."""
Sha256Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
MimeType = Annotated[
    str, StringConstraints(max_length=127, pattern=r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+$")
]
Flag = StrictBool
Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
"""A number of things or milliseconds; below 2**53 so that every JSON reader keeps it exact."""
Positive = Annotated[int, Field(strict=True, ge=1, lt=2**53)]
TimestampMs = Count
"""An instant: milliseconds since 1970-01-01 UTC, by the clock of Redis."""


class WireModel(BaseModel):
    """A value that travels: immutable, and unknown fields are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """Return a copy with `update` applied and validated again.

        pydantic's own copy skips the validators and would carry cached values such as `spec_hash`
        over to a changed model; a wire model never exists unvalidated.
        """
        if update is None:
            return super().model_copy(deep=deep)
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate({**fields, **update})


def canonical_json(value: object) -> bytes:
    """Return the one JSON spelling that is hashed: sorted keys, compact, UTF-8.

    Raises:
        ValueError: The value holds NaN, an infinity or a lone surrogate.
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )
    return text.encode("utf-8")


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def utf8_size(text: str) -> int:
    """Return the length of `text` in UTF-8 bytes, without encoding the ASCII case.

    Raises:
        ValueError: The text holds a lone surrogate.
    """
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def json_size(value: object) -> int:
    """Return the size of `value` as compact JSON in bytes; refuses lone surrogates on the way.

    Raises:
        ValueError: A string or key holds a lone surrogate.
    """
    try:
        return len(to_json(value))
    except PydanticSerializationError as error:
        raise ValueError("text holds a lone surrogate or a value JSON cannot carry") from error


def check_json(value: object, *, limit_bytes: int, what: str) -> None:
    """Refuse a JSON value that is larger than `limit_bytes` or not valid Unicode.

    Raises:
        ValueError: Too large, or a lone surrogate.
    """
    size = json_size(value)
    if size > limit_bytes:
        raise ValueError(f"{what} has {size} bytes of JSON, the limit is {limit_bytes}")
