"""Make the SDK able to take what a careless or hostile server says, losing as little as possible.

Is: pure functions on the raw results of `tools/list` and `tools/call`. The SDK validates a result
whole: one malformed tool would lose the listing, one unknown block the answer of a call that has
already had its effect. Is not: trust; everything here is still a third party's word.
Above: `tap.py`; `listing.py` and `mapping.py` read the marks back. Below: the SDK's wire models.
"""

import json
from collections.abc import Mapping

from mcp.types import ContentBlock, Tool
from mcp_types.methods import validate_server_result
from pydantic import JsonValue, TypeAdapter, ValidationError

from toolrail.redaction import without_known

OUTPUT_SCHEMA_MARK = "io.toolrail/output-schema"
"""In a tool's `_meta`: its output schema, withheld from the SDK, which would lose the result."""
DROPPED_MARK = "io.toolrail/dropped"
"""In a listing's `_meta`: one sentence for each tool that was dropped."""
RAW_MARK = "io.toolrail/raw"
"""In a text block's `_meta`: the content that is not a text block at all."""

MAX_TOOLS_OF_PAGE = 1_000
SHORT_CHARS = 80

RawObject = dict[str, JsonValue]

_BLOCK: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)
_NO_ARGUMENTS: RawObject = {"type": "object", "properties": {}}


def clean_listing(result: Mapping[str, JsonValue], *, version: str) -> RawObject:
    """Return a `tools/list` result the SDK accepts, without the tools it would not.

    Nor does it hold a secret that this process gave to the server: a listing is kept and shown.

    Args:
        result: What the server sent.
        version: The protocol revision whose wire models the SDK will apply.
    """
    kept: list[JsonValue] = []
    dropped: list[JsonValue] = []
    tools = without_known(result.get("tools"))
    if not isinstance(tools, list):
        dropped.append("the listing holds no list of tools")
        tools = []
    if len(tools) > MAX_TOOLS_OF_PAGE:
        dropped.append(f"only {MAX_TOOLS_OF_PAGE} of {len(tools)} tools of one page are taken")
    for raw in tools[:MAX_TOOLS_OF_PAGE]:
        cleaned = _clean_tool(raw, version=version)
        if isinstance(cleaned, str):
            dropped.append(cleaned)
        else:
            kept.append(cleaned)
    cleaned_result: RawObject = {"tools": kept, "_meta": {DROPPED_MARK: dropped}}
    cursor = result.get("nextCursor")
    if isinstance(cursor, str):
        cleaned_result["nextCursor"] = cursor
    return {**cleaned_result, **_freshness(result)}


def clean_call_result(result: Mapping[str, JsonValue], *, version: str) -> RawObject:
    """Return a `tools/call` result the SDK accepts; what it would not becomes a marked block."""
    if result.get("resultType") not in (None, "complete"):
        return dict(result)  # a question back to us, or an extension: the SDK knows or refuses it
    content = result.get("content")
    blocks: list[JsonValue] = [
        block if _is_block(block, version=version) else _marked(block)
        for block in (content if isinstance(content, list) else [])
    ]
    cleaned: RawObject = {"resultType": "complete"}
    if "structuredContent" in result:
        structured = result["structuredContent"]
        if _accepts({"content": [], "structuredContent": structured}, version=version):
            cleaned["structuredContent"] = structured
        else:
            blocks.append(_marked(structured))
    cleaned["content"] = blocks
    # Anything but a plain "no" is an error: a success nobody is sure of is worse than a failure.
    cleaned["isError"] = result.get("isError") not in (None, False)
    return cleaned


def _clean_tool(raw: JsonValue, *, version: str) -> RawObject | str:
    """Return the tool, or a sentence that says why there is none."""
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        return f"a tool without a name: {_short(raw)}"
    name = str(raw["name"])
    schema = raw.get("inputSchema", _NO_ARGUMENTS) or _NO_ARGUMENTS
    if not isinstance(schema, dict):
        return f"{_short(name)}: its input schema is not an object"
    tool: RawObject = {**raw, "inputSchema": {"type": "object", **schema}}
    given_meta = raw.get("_meta")
    meta: RawObject = dict(given_meta) if isinstance(given_meta, dict) else {}
    meta[OUTPUT_SCHEMA_MARK] = tool.pop("outputSchema", None)
    tool["_meta"] = meta
    problem = _tool_problem(tool, version=version)
    return tool if problem is None else f"{_short(name)}: {problem}"


def _tool_problem(tool: RawObject, *, version: str) -> str | None:
    listing: RawObject = {
        "tools": [tool],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }
    try:
        validate_server_result("tools/list", version, listing)
        Tool.model_validate(tool, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'][-3:]))}: {first['msg']}"
    return None


def _freshness(result: Mapping[str, JsonValue]) -> RawObject:
    """Return the caching fields that the modern revision insists on, ours where unusable.

    They are sent to sessions of both eras; the SDK drops them where they do not belong.
    """
    scope = result.get("cacheScope")
    ttl = result.get("ttlMs")
    usable = isinstance(ttl, int) and not isinstance(ttl, bool) and ttl >= 0
    return {
        "resultType": "complete",
        "cacheScope": scope if scope in ("private", "public") else "private",
        "ttlMs": ttl if usable else 0,
    }


def _is_block(block: JsonValue, *, version: str) -> bool:
    if not isinstance(block, dict) or not _accepts({"content": [block]}, version=version):
        return False
    try:
        _BLOCK.validate_python(block, by_name=False)
    except ValidationError:
        return False
    return True


def _accepts(result: RawObject, *, version: str) -> bool:
    try:
        validate_server_result("tools/call", version, {"resultType": "complete", **result})
    except ValidationError:
        return False
    return True


def _marked(value: JsonValue) -> RawObject:
    return {"type": "text", "text": "", "_meta": {RAW_MARK: value}}


def _short(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= SHORT_CHARS else text[:SHORT_CHARS] + "..."
