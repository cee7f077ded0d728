"""The two calls that every recording makes, with their tools and results.

Is: `browser.screenshot` answered with text and an image, `workspace.apply_patch` with an error; the
recordings themselves. Is not: assertions. Above: the provider tests. Below: the recordings, made
with the real SDKs against a loopback server.
"""

import base64
import json
import re
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from toolrail.providers import Conversation, Provider, Turn
from toolrail.request import CallRequest
from toolrail_schemas import (
    ImageRefBlock,
    JsonObject,
    Source,
    SurfaceMeta,
    TextBlock,
    ToolResult,
    ToolSpec,
    sha256_hex,
)

FIXTURES = Path(__file__).parent / "fixtures"
_UPPER = re.compile(r"_([a-z])")
RUN = "run_01JDSCENARIO00000000000000"
PNG64 = (
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJ"
    "RU5ErkJggg=="
)
PNG = base64.b64decode(PNG64)
MEDIA = {sha256_hex(PNG): PNG}
PATCH = "@@ -1 +1 @@\n-a\n+b\n"
ARGUMENTS: list[JsonObject] = [
    {"url": "https://example.test/", "full_page": True},
    {"path": "a.txt", "patch": PATCH, "strip": None},
]
NAMES = ["browser.screenshot", "workspace.apply_patch"]


def recorded(name: str) -> JsonObject:
    """Return a recording that is an object."""
    value = recorded_value(name)
    assert isinstance(value, dict)
    return value


def recorded_events(name: str) -> list[JsonObject]:
    """Return the events of a recorded stream; `[DONE]` is left out."""
    value = recorded_value(name)
    assert isinstance(value, list)
    return [event for event in value if isinstance(event, dict)]


def recorded_value(name: str) -> JsonValue:
    """Return a recording."""
    return cast("JsonValue", json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8")))


def specs(*, deferred: bool = False, examples: bool = False) -> list[ToolSpec]:
    """Return the two tools."""
    meta = [
        SurfaceMeta(deferred_loading=deferred or None, input_examples=(one,) if examples else ())
        for one in ARGUMENTS
    ]
    return [
        spec(
            "browser.screenshot",
            {
                "type": "object",
                "properties": {
                    "url": {"type": "string", "format": "uri"},
                    "full_page": {"type": "boolean", "default": False},
                },
                "required": ["url"],
                "additionalProperties": False,
            },
            description="Take a screenshot of a page.",
            meta=meta[0],
        ),
        spec(
            "workspace.apply_patch",
            {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "patch": {"type": "string"},
                    "strip": {"type": ["integer", "null"], "minimum": 0},
                },
                "required": ["path", "patch"],
                "additionalProperties": False,
            },
            description="Apply a unified diff to the workspace.",
            meta=meta[1],
        ),
    ]


def spec(
    name: str,
    schema: JsonObject,
    *,
    description: str = "A tool.",
    meta: SurfaceMeta | None = None,
) -> ToolSpec:
    """Return a builtin tool."""
    return ToolSpec.model_validate(
        {
            "name": name,
            "description": description,
            "input_schema": schema,
            "source": Source.BUILTIN,
            "surface_meta": meta or SurfaceMeta(),
        }
    )


def results(requests: tuple[CallRequest, ...]) -> list[ToolResult]:
    """Return the recorded results: text with an image, and an error."""
    screenshot, patch = requests
    ref = "workspace:shot.png"
    image = ImageRefBlock(ref=ref, mime="image/png", bytes=len(PNG), sha256=sha256_hex(PNG))
    return [
        ToolResult(
            call_id=screenshot.id,
            name=screenshot.name,
            content=(TextBlock(text="Screenshot taken (2x2)."), image),
            resource_refs=(ref,),
        ),
        ToolResult.failure(
            patch.id, patch.name, code="patch.mismatch", text="hunk 1 failed to apply at line 1"
        ),
    ]


def answer(request: CallRequest, text: str) -> ToolResult:
    """Return a result of one text."""
    return ToolResult(call_id=request.id, name=request.name, content=(TextBlock(text=text),))


def talk(provider: Provider) -> Conversation:
    """Return a conversation in which the two tools are declared."""
    chat = Conversation(provider, run_id=RUN)
    chat.tools(specs())
    return chat


def check_two_calls(turn: Turn) -> None:
    """The turn holds the two calls of the scenario, in our words."""
    assert [request.name for request in turn.requests] == NAMES
    assert [request.arguments for request in turn.requests] == ARGUMENTS
    assert [call.repairs for call in turn.calls] == [(), ()]
    assert all(request.id.startswith("tc_") and len(request.id) == 27 for request in turn.requests)


def camel(value: JsonValue) -> JsonValue:
    """Return a body of Google's SDK with one spelling; it sends two, and the API takes both."""
    if isinstance(value, list):
        return [camel(inner) for inner in value]
    if isinstance(value, dict):
        return {
            key if key in ("full_page",) else _UPPER.sub(lambda m: m[1].upper(), key): camel(inner)
            for key, inner in value.items()
        }
    return value
