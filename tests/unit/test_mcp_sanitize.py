"""What careless and hostile servers send, and that the SDK can take what is left of it.

Is: `sanitize.py` and `tap.py` against the SDK's own wire models. Is not: a running server.
Above: nothing. Below: `toolrail_workers.mcp`.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp.types import (
    CallToolResult,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
    TextContent,
)
from mcp_types.methods import validate_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import JsonValue

from toolrail_workers.mcp.sanitize import (
    DROPPED_MARK,
    OUTPUT_SCHEMA_MARK,
    RAW_MARK,
    clean_call_result,
    clean_listing,
)
from toolrail_workers.mcp.tap import Tap

ERAS = [LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION]
each_era = pytest.mark.parametrize("version", ERAS)
Raw = dict[str, JsonValue]


def listed(result: Raw, version: str) -> ListToolsResult:
    """Return the listing as the SDK's session would parse it."""
    cleaned = clean_listing(result, version=version)
    validate_server_result("tools/list", version, cleaned)
    return ListToolsResult.model_validate(cleaned, by_name=False)


def answered(result: Raw, version: str) -> CallToolResult:
    """Return the result as the SDK's session would parse it."""
    cleaned = clean_call_result(result, version=version)
    validate_server_result("tools/call", version, cleaned)
    return CallToolResult.model_validate(cleaned, by_name=False)


def marked(result: CallToolResult) -> list[JsonValue]:
    """Return the raw content that was kept in marked blocks."""
    blocks = [block for block in result.content if isinstance(block, TextContent)]
    return [block.meta[RAW_MARK] for block in blocks if block.meta and RAW_MARK in block.meta]


@each_era
def test_only_the_malformed_tools_of_a_listing_are_dropped(version: str) -> None:
    """Each with a sentence that names it."""
    tools: list[JsonValue] = [
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "list", "inputSchema": []},
        {"name": "array", "inputSchema": {"type": "array"}},
        {"name": "hints", "annotations": {"readOnlyHint": "maybe"}},
        {"description": "no name"},
        7,
    ]
    page = listed({"tools": tools}, version)
    dropped = (page.meta or {})[DROPPED_MARK]

    assert "good" in [tool.name for tool in page.tools]
    assert {tool.name for tool in page.tools}.isdisjoint({"hints"})
    assert any(sentence.startswith("hints: ") for sentence in dropped)
    assert len(page.tools) + len(dropped) == len(tools)


@each_era
@pytest.mark.parametrize("given", [{}, {"inputSchema": None}, {"inputSchema": {}}])
def test_a_missing_input_schema_means_no_arguments(given: Raw, version: str) -> None:
    """As the specification of older revisions let servers do."""
    (tool,) = listed({"tools": [{"name": "bare", **given}]}, version).tools

    assert tool.input_schema == {"type": "object", "properties": {}}


@each_era
def test_an_output_schema_is_kept_from_the_sdk_but_not_lost(version: str) -> None:
    """The SDK would throw a whole result away over it; we judge it ourselves."""
    schema: Raw = {"type": "object"}
    (tool,) = listed({"tools": [{"name": "t", "outputSchema": schema}]}, version).tools

    assert tool.output_schema is None
    assert (tool.meta or {})[OUTPUT_SCHEMA_MARK] == schema


@each_era
@pytest.mark.parametrize("tools", [None, 7, {"name": "t"}])
def test_a_listing_without_a_list_is_an_empty_one(tools: JsonValue, version: str) -> None:
    """With a sentence about it."""
    page = listed({"tools": tools}, version)

    assert page.tools == []
    assert len((page.meta or {})[DROPPED_MARK]) == 1


@each_era
def test_blocks_the_protocol_does_not_know_are_kept_raw(version: str) -> None:
    """Unknown kinds, malformed known ones, and things that are no block."""
    odd: list[JsonValue] = [{"type": "video"}, {"type": "image"}, "text", None]
    result = answered({"content": [{"type": "text", "text": "x"}, *odd]}, version)

    assert marked(result) == odd


@each_era
@pytest.mark.parametrize("content", [None, "text", 7, {}])
def test_a_result_without_content_is_an_empty_one(content: JsonValue, version: str) -> None:
    """The tool did run, and has nothing to say."""
    assert answered({"content": content}, version).content == []


def test_structure_that_an_era_does_not_know_is_kept_raw() -> None:
    """Legacy knows objects only; modern knows any JSON, null included."""
    legacy = answered({"structuredContent": [1]}, LATEST_HANDSHAKE_VERSION)
    modern = answered({"structuredContent": None}, LATEST_MODERN_VERSION)

    assert marked(legacy) == [[1]]
    assert "structured_content" in modern.model_fields_set


@each_era
@pytest.mark.parametrize(
    ("said", "is_error"), [(None, False), (False, False), (True, True), ("no", True), (0, False)]
)
def test_a_success_that_is_not_sure_is_an_error(
    said: JsonValue, is_error: bool, version: str
) -> None:
    """Only what reads as "no", or nothing, means success."""
    assert answered({"isError": said}, version).is_error is is_error


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=6,
)
TOOL_KEYS = st.sampled_from(["name", "title", "inputSchema", "annotations", "_meta", "icons"])
BLOCKS = st.dictionaries(st.sampled_from(["type", "text", "data", "resource", "_meta"]), JSON)


@given(tools=st.lists(st.dictionaries(TOOL_KEYS, JSON) | JSON, max_size=4), other=JSON)
def test_no_listing_can_stop_the_sdk(tools: list[JsonValue], other: JsonValue) -> None:
    """Whatever is sent, both eras parse what is passed on."""
    for version in ERAS:
        listed({"tools": tools, "ttlMs": other, "cacheScope": other, "_meta": other}, version)


@given(blocks=st.lists(BLOCKS | JSON, max_size=4), structured=JSON, other=JSON)
def test_no_result_can_stop_the_sdk(
    blocks: list[JsonValue], structured: JsonValue, other: JsonValue
) -> None:
    """Whatever is sent as complete, both eras parse what is passed on."""
    for version in ERAS:
        answered({"content": blocks, "structuredContent": structured, "isError": other}, version)


def test_the_tap_cleans_the_answers_of_the_era_that_was_spoken() -> None:
    """It learns the era from the handshake, and which answer is which from the ids."""
    tap = Tap("raw")
    for request_id, method in ((1, "initialize"), (2, "tools/call")):
        request = JSONRPCRequest(jsonrpc="2.0", id=request_id, method=method)
        tap.outbound(SessionMessage(request))
    answer = JSONRPCResponse(jsonrpc="2.0", id=2, result={"structuredContent": [1]})
    passed = tap.inbound(SessionMessage(answer))
    again = tap.inbound(SessionMessage(answer))

    assert isinstance(passed, SessionMessage)
    assert isinstance(passed.message, JSONRPCResponse)
    assert "structuredContent" not in passed.message.result
    assert isinstance(again, SessionMessage)
    assert again.message == answer
    assert tap.received == 2
