"""Turn a request into a draft: parsed, named, sized and digested.

Is: steps 1 to 3 of the order in semantics 0. Is not: judging (`judgement.py`) or storing
(`entry.py`). Above: `dispatcher.py`. Below: registry, names, validation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from pydantic import JsonValue

from toolrail.errors import CallError, InvalidArguments
from toolrail.judgement import Asked
from toolrail.names import SHOWN_MAX_CHARS, AliasMap, shown_name
from toolrail.redaction import clean
from toolrail.registry import RegisteredTool, RegistryView
from toolrail.request import CallRequest, CallTooLarge, Redrive, RunContext, check_identity
from toolrail.validation import parse_arguments
from toolrail_schemas import call_key, canonical_json, queue_of, sha256_hex

METADATA_MAX_BYTES = 64 * 1024
NO_QUEUE = "none"
"""Where a call of an unknown tool is counted; no worker serves it."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A call on its way into the ledger."""

    key: str
    asked: Asked
    tool: RegisteredTool | None
    queue: str
    raw: bytes
    raw_sha256: str
    digest: str
    metadata: bytes
    deadline_ms: int
    redrive: Redrive | None = None


class Drafter:
    """Makes drafts against the registry as it is now."""

    def __init__(self, registry: RegistryView, *, call_deadline_ms: int) -> None:
        self._registry = registry
        self._call_deadline_ms = call_deadline_ms
        self._aliases: tuple[frozenset[str], AliasMap] = (frozenset(), AliasMap(()))

    async def draft(self, run: RunContext, request: CallRequest, deadline_s: float | None) -> Draft:
        """Return the draft of a request.

        Raises:
            CallError: The id, the turn or the metadata cannot be kept.
        """
        check_identity(request)
        metadata = _metadata_bytes(request.provider_metadata)
        problem, arguments = None, None
        try:
            arguments = parse_arguments(request.arguments)
            raw = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
        except InvalidArguments as error:
            problem, raw = error, _raw_bytes(request.arguments)
        tool = await self._find(request.name)
        name = tool.spec.name if tool else clean(shown_name(request.name))[:SHOWN_MAX_CHARS]
        caller = request.caller or run.spec.caller
        raw_sha256 = sha256_hex(raw)
        said = [name, raw_sha256, caller.value, sha256_hex(metadata)]
        return Draft(
            key=call_key(run.run_id, request.turn, request.id),
            asked=Asked(
                request.id, name, arguments, problem, caller, request.turn, shown_name(request.name)
            ),
            tool=tool,
            queue=queue_of(tool.spec.source) if tool else NO_QUEUE,
            raw=raw,
            raw_sha256=raw_sha256,
            digest=sha256_hex(canonical_json(said)),
            metadata=metadata,
            deadline_ms=(self._call_deadline_ms if deadline_s is None else int(deadline_s * 1000)),
            redrive=request.redrive,
        )

    async def _find(self, name: str) -> RegisteredTool | None:
        tools = await self._registry.tools()
        tool = tools.get(name)
        if tool is not None:
            return tool
        names = frozenset(tools)
        if names != self._aliases[0]:
            self._aliases = (names, AliasMap(names))
        return await self._registry.find(self._aliases[1].canonical(name) or name)


def _metadata_bytes(metadata: Mapping[str, JsonValue] | None) -> bytes:
    if not metadata:
        return b""
    try:
        data = orjson.dumps(metadata)
    except TypeError as error:
        raise CallError(
            f"provider_metadata is not JSON: {error}. Pass on what the provider sent, parsed."
        ) from error
    if len(data) > METADATA_MAX_BYTES:
        raise CallTooLarge(
            f"provider_metadata has {len(data)} bytes; the limit is {METADATA_MAX_BYTES}. "
            "Keep it on your side, and pass a key to it."
        )
    return data


def _raw_bytes(arguments: str | bytes | Mapping[str, JsonValue] | None) -> bytes:
    """Return what the model wrote, to be stored beside the refusal; not necessarily JSON."""
    match arguments:
        case bytes():
            return arguments
        case str():
            return arguments.encode("utf-8", "surrogatepass")
        case _:
            try:
                return repr(arguments).encode("utf-8", "surrogatepass")
            except Exception:  # noqa: BLE001  # what is in there may refuse in any way of its own
                return b""
