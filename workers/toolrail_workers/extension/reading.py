"""Read an extension's answer as the output of a tool; it is text from a third party.

Is: form, limits and refs of a `CallReply` (semantics 9.4). Is not: the check against the output
schema or the cut to a call's budget, which are the same for every source (`answers.py`,
`output.py`). Above: `executor.py`. Below: `faults.py`, the schemas.
"""

from collections.abc import Iterable
from typing import cast

import orjson
from pydantic import JsonValue, ValidationError

from toolrail.extension.bridge import CallId
from toolrail.tools import ToolOutput
from toolrail_schemas import CallReply, JsonBlock, TextBlock, ToolSpec
from toolrail_workers.extension.faults import invalid_output, too_large

BLOCKS_MAX = 32
BLOCK_BYTES = 64 * 1024
STRUCTURED_BYTES = 256 * 1024
"""Source of the three: semantics 1.5."""
ENVELOPE_BYTES = 64 * 1024
_INLINE_KINDS = frozenset({"image", "audio", "data", "blob", "resource"})


def read_answer(text: str, call: CallId, spec: ToolSpec, *, max_bytes: int) -> ToolOutput:
    """Return the output that an answer stands for.

    Args:
        text: The message as it came.
        call: That it was sent for.
        spec: Of the called tool.
        max_bytes: What may be stored of the call's output; the JSON around it has room besides.

    Raises:
        ToolError: `tool.invalid_output` or `tool.output_too_large`.
    """
    # Escapes may double what is stored, never more for text that a model can read.
    if len(text) > 2 * max_bytes + ENVELOPE_BYTES:
        raise too_large(f"{len(text)} characters of JSON; at most {max_bytes} bytes may be stored")
    reply = _parse(text)
    if CallId.of(reply) != call:
        raise invalid_output("for another call")
    for block in reply.content:
        if not isinstance(block, TextBlock | JsonBlock):
            # There is no upload on this bridge yet, so no ref can be the call's own.
            raise invalid_output(f"with a {block.kind} block; an extension may give out no refs")
    has_structured = "structured" in reply.model_fields_set
    if spec.output_schema is not None and not has_structured and not reply.is_error:
        raise invalid_output("without `structured`, which its output schema promises")
    return ToolOutput(
        content=reply.content,
        structured=reply.structured,
        is_error=reply.is_error,
        error_code="tool.execution_failed" if reply.is_error else None,
    )


def _parse(text: str) -> CallReply:
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise invalid_output("with something that is not JSON") from None
    if not isinstance(value, dict):
        kind = "a bare string" if isinstance(value, str) else f"a bare {type(value).__name__}"
        raise invalid_output(f"with {kind} instead of content blocks")
    wire = cast("dict[str, JsonValue]", value)
    _check_sizes(wire)
    try:
        return CallReply.model_validate(wire)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"][:4])[:100]
        raise invalid_output(f"in a form that is not allowed ({place}: {first['type']})") from None


def _check_sizes(wire: dict[str, JsonValue]) -> None:
    """Tell too much from wrong: a model can ask for less, but not for another form."""
    content = wire.get("content")
    if isinstance(content, str):
        raise invalid_output("with a bare string instead of content blocks")
    blocks = content if isinstance(content, list) else []
    if len(blocks) > BLOCKS_MAX:
        raise too_large(f"{len(blocks)} blocks; at most {BLOCKS_MAX} are allowed")
    for block in blocks:
        _check_block(block)
    if _size([wire.get("structured")]) > STRUCTURED_BYTES:
        raise too_large(f"more than {STRUCTURED_BYTES} bytes of structured output")


def _check_block(block: JsonValue) -> None:
    if isinstance(block, str):
        raise invalid_output("with a bare string among its content blocks")
    if not isinstance(block, dict):
        return
    if block.get("kind") in _INLINE_KINDS:
        raise invalid_output(f"with an inline {block['kind']}; media are not taken yet")
    if _size(block.get(key) for key in ("text", "value")) > BLOCK_BYTES:
        raise too_large(f"a block of more than {BLOCK_BYTES} bytes")


def _size(values: Iterable[JsonValue]) -> int:
    total = 0
    for value in values:
        if isinstance(value, str):
            total += len(value.encode())
        elif value is not None:
            try:
                total += len(orjson.dumps(value))
            except orjson.JSONEncodeError:
                raise invalid_output("with JSON that nests too deeply") from None
    return total
