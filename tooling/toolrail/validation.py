"""Check a call's arguments: first as JSON, then against the tool's input schema.

Is: the gate between what a model wrote and what a tool gets. Is not: permission, or meaning of
paths and URLs. Above: dispatcher, `toolrail try`. Below: jsonschema-rs, which never fetches here.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import jsonschema_rs
import orjson
from pydantic import JsonValue

from toolrail.errors import InvalidArguments
from toolrail_schemas import ToolSpec

ARGUMENTS_MAX_BYTES = 1024 * 1024
"""Source: semantics 1.4."""
SHOWN_ERRORS = 5
NEXT = "Correct the arguments and call again."


def parse_arguments(raw: str | bytes | Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    """Return a model's arguments as a JSON object.

    Args:
        raw: JSON text as the provider sent it, an object already parsed, or nothing at all.

    Raises:
        InvalidArguments: Over 1 MiB, not JSON, a key twice, NaN or infinity, a lone surrogate,
            a number beyond reading, or not an object. The message says which, and what to do.
    """
    if raw is None or (isinstance(raw, str | bytes) and not raw.strip()):
        return {}
    if isinstance(raw, Mapping):
        return _checked_object(dict(raw))
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        size = len(text.encode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidArguments(f"The arguments are not UTF-8. {NEXT}") from error
    except UnicodeEncodeError as error:
        raise InvalidArguments(_SURROGATE) from error
    _check_size(size)
    try:
        value: object = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise InvalidArguments(f"The arguments nest too deeply. {NEXT}") from error
    except json.JSONDecodeError as error:
        raise InvalidArguments(
            f"The arguments are not JSON: {error.msg} at line {error.lineno}, "
            f"column {error.colno}. Send one JSON object."
        ) from error
    except ValueError as error:
        # Python reads no integer of more than 4300 digits.
        raise InvalidArguments(
            f"The arguments hold a number of too many digits. Send it as a string. {NEXT}"
        ) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidArguments(
            f"The arguments are a JSON {_json_type(value)}, not an object. Send one JSON object."
        )
    return _checked_object(cast("dict[str, JsonValue]", value))


_SURROGATE = f"The arguments hold half of a surrogate pair, which is not text. {NEXT}"


def _unique(pairs: Sequence[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    out: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in out:
            raise InvalidArguments(
                f"The key {key[:80]!r} stands twice in one object. Send each key once."
            )
        out[key] = value
    return out


def _refuse_constant(name: str) -> JsonValue:
    raise InvalidArguments(f"The arguments hold {name}, which JSON does not know. {NEXT}")


def _json_type(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "null"


def _check_size(size: int) -> None:
    if size > ARGUMENTS_MAX_BYTES:
        raise InvalidArguments(
            f"The arguments have {size} bytes; the limit is {ARGUMENTS_MAX_BYTES}. "
            "Send less, or write a file and pass its path."
        )


def _checked_object(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Refuse what JSON text could not have said: NaN, surrogates, foreign types; and the size."""
    try:
        encoded = orjson.dumps(value)
    except (TypeError, ValueError) as error:
        reason = _SURROGATE if "surrogate" in str(error) else f"{error}. {NEXT}"
        raise InvalidArguments(f"The arguments are not JSON: {reason}") from error
    _check_size(len(encoded))
    # orjson writes NaN as null; the standard library refuses it. Only floats can hold it.
    if b"null" in encoded:
        try:
            json.dumps(value, allow_nan=False)
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(
                f"The arguments hold NaN or an infinity, which JSON does not know. {NEXT}"
            ) from error
    return value


class ArgumentValidators:
    """Compiled validators, one per spec; safe to keep for a process's life."""

    def __init__(self, *, most: int = 4096) -> None:
        self._most = most
        self._compiled: dict[str, Callable[[JsonValue], bool]] = {}

    def check(self, spec: ToolSpec, arguments: dict[str, JsonValue]) -> None:
        """The arguments fit the tool's input schema.

        Raises:
            InvalidArguments: Up to five problems, each with its place and what was expected.
        """
        if not self.fits(spec, arguments):
            raise InvalidArguments(explain(spec.input_schema, arguments))

    def fits(self, spec: ToolSpec, arguments: dict[str, JsonValue]) -> bool:
        """Return whether the arguments fit the tool's input schema."""
        is_valid = self._compiled.get(spec.spec_hash)
        if is_valid is None:
            if len(self._compiled) >= self._most:
                self._compiled.clear()
            is_valid = validator_for(spec.input_schema).is_valid
            self._compiled[spec.spec_hash] = is_valid
        return is_valid(arguments)


def validator_for(schema: Mapping[str, JsonValue]) -> jsonschema_rs.Draft202012Validator:
    """Return a draft 2020-12 validator that fetches nothing and cannot be made to backtrack."""
    parsed = dict(schema)
    try:
        return jsonschema_rs.Draft202012Validator(
            parsed, offline=True, pattern_options=jsonschema_rs.RegexOptions()
        )
    except (jsonschema_rs.ValidationError, ValueError):
        # The linear engine knows no look-around; this one is bounded instead.
        return jsonschema_rs.Draft202012Validator(
            parsed,
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
        )


def explain(schema: Mapping[str, JsonValue], arguments: dict[str, JsonValue]) -> str:
    """Return what is wrong with the arguments, for a model: place, problem, allowed keys."""
    lines: list[str] = []
    for error in validator_for(schema).iter_errors(arguments):
        if len(lines) == SHOWN_ERRORS:
            lines.append("and more")
            break
        place = "/".join(str(part) for part in error.instance_path) or "the arguments"
        lines.append(f"{place}: {error.message[:300]}")
    known = schema.get("properties")
    keys = f" Known keys: {', '.join(sorted(known))}." if isinstance(known, dict) and known else ""
    return f"The arguments do not fit the schema: {'; '.join(lines)}.{keys} {NEXT}"
