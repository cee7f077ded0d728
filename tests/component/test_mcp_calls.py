"""Calls and listings of MCP servers that behave, as real processes of both eras.

Is: the executor from servers file to output. Is not: faults (`test_mcp_faults.py`), servers of
others (`tests/integration/test_mcp_servers.py`). Above: nothing. Below: `tests/mcp_servers.py`.
"""

import asyncio
import json
from pathlib import Path

import pytest

from tests.mcp_servers import claimed, raw_entry, running, sdk_entry, text_of
from tests.waiting import await_until
from toolrail.tools import ToolError
from toolrail_schemas import (
    AudioRefBlock,
    ErrorClass,
    ImageRefBlock,
    JsonBlock,
    JsonObject,
    Permission,
)

SAY: JsonObject = {"name": "say", "description": "Say so.", "inputSchema": {"type": "object"}}


def scripted(answers: dict[str, object], **script: object) -> dict[str, object]:
    """Return a script that lists a tool for each answer."""
    return {"tools": [{"name": name} for name in answers], "answers": answers, **script}


async def test_a_modern_tool_is_listed_and_answers_with_structure(tmp_path: Path) -> None:
    """Arguments arrive, the structured result comes back, once and not again as text."""
    async with running({"sdk": sdk_entry(tmp_path / "cancelled")}) as bench:
        await bench.ready("sdk")
        spec = bench.spec("sdk", "echo")
        output = await bench.call("sdk", "echo", {"text": "hello"})

        assert spec.description == "Say it again."
        assert spec.permission is Permission.APPROVAL_REQUIRED
        assert spec.output_schema is not None
        assert output.structured == {"result": "hello"}
        assert output.content == ()


async def test_calls_of_one_server_run_at_the_same_time(tmp_path: Path) -> None:
    """Three naps end although each would outlast its deadline behind the others."""
    async with running({"sdk": sdk_entry(tmp_path / "cancelled")}) as bench:
        await bench.ready("sdk")
        naps = [bench.call("sdk", "nap", {"seconds": 0.3}, timeout_s=5.0) for _ in range(3)]
        outputs = await asyncio.gather(*naps)

        assert [text_of(output) for output in outputs] == ["slept"] * 3


async def test_no_more_calls_reach_a_server_than_it_is_allowed(tmp_path: Path) -> None:
    """With one slot the second call waits until the first is cancelled."""
    entry = sdk_entry(tmp_path / "cancelled", max_concurrency=1)
    async with running({"sdk": entry}) as bench:
        await bench.ready("sdk")
        first = asyncio.create_task(bench.call("sdk", "nap", {"seconds": 60}))
        await await_until(lambda: bench.progress, "the first call to run")
        second = asyncio.create_task(bench.call("sdk", "echo", {"text": "late"}))
        await asyncio.wait({second}, timeout=0.2)
        waited = not second.done()
        first.cancel()

        assert waited
        assert (await second).structured == {"result": "late"}


async def test_a_call_that_never_got_its_turn_is_not_called_unknown(tmp_path: Path) -> None:
    """It ends before its deadline, with the word that it was not made."""
    entry = sdk_entry(tmp_path / "cancelled", max_concurrency=1)
    async with running({"sdk": entry}) as bench:
        await bench.ready("sdk")
        first = asyncio.create_task(bench.call("sdk", "nap", {"seconds": 60}))
        await await_until(lambda: bench.progress, "the first call to run")
        with pytest.raises(ToolError, match="not made") as caught:
            await bench.call("sdk", "nap", {"seconds": 0}, timeout_s=0.2)
        first.cancel()

        assert caught.value.code == "mcp.server_unavailable"


async def test_a_server_without_tools_is_available_with_none() -> None:
    """Servers of prompts and resources only are no failure."""
    async with running({"raw": raw_entry({"tools": None})}) as bench:
        await await_until(lambda: bench.owner("raw").available, "the server to be available")

        assert bench.owner("raw").specs == ()


async def test_cancelling_a_call_reaches_the_server(tmp_path: Path) -> None:
    """The tool of the server itself is cancelled, and the connection stays good."""
    cancelled = tmp_path / "cancelled"
    async with running({"sdk": sdk_entry(cancelled)}) as bench:
        await bench.ready("sdk")
        call = asyncio.create_task(bench.call("sdk", "nap", {"seconds": 60}))
        await await_until(lambda: bench.progress, "the call to run")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await await_until(cancelled.exists, "the server's tool to be cancelled")

        assert (await bench.call("sdk", "echo", {"text": "still"})).structured == {
            "result": "still"
        }


async def test_a_cancel_is_written_to_a_legacy_server_too(tmp_path: Path) -> None:
    """The wire shows one notice for one abandoned call."""
    wire = tmp_path / "wire"
    script = scripted({"silent": {"$": "be_silent"}}, wire_log=str(wire))
    async with running({"raw": raw_entry(script)}) as bench:
        await bench.ready("raw")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await bench.call("raw", "silent")
        await await_until(lambda: "notifications/cancelled" in wire.read_text(), "the notice")


async def test_progress_of_a_server_is_passed_on(tmp_path: Path) -> None:
    """As a share, with the server's own words."""
    async with running({"sdk": sdk_entry(tmp_path / "cancelled")}) as bench:
        await bench.ready("sdk")
        await bench.call("sdk", "nap", {"seconds": 0})
        await await_until(lambda: bench.progress, "the progress")

        assert bench.progress == [(0.5, "lying down")]


async def test_media_are_stored_and_only_referred_to(tmp_path: Path) -> None:
    """The bytes are in the store under their digest, none are in the output."""
    async with running({"sdk": sdk_entry(tmp_path / "cancelled")}) as bench:
        await bench.ready("sdk")
        text, image, sound = (await bench.call("sdk", "picture")).content

        assert text.kind == "text"
        assert isinstance(image, ImageRefBlock)
        assert isinstance(sound, AudioRefBlock)
        assert bench.store.blobs[image.sha256].startswith(b"\x89PNG")
        assert bench.store.blobs[sound.sha256].startswith(b"RIFF")
        assert sound.mime == "audio/wav"


async def test_a_new_tool_of_a_modern_server_appears(tmp_path: Path) -> None:
    """The subscription brings a fresh listing, which is announced and callable."""
    async with running({"sdk": sdk_entry(tmp_path / "cancelled")}) as bench:
        await bench.ready("sdk")
        before = bench.changes
        await bench.call("sdk", "grow")
        await await_until(
            lambda: any(spec.name == "mcp.sdk.grown" for spec in bench.owner("sdk").specs),
            "the new tool",
        )

        assert bench.changes > before
        assert (await bench.call("sdk", "grown")).structured == {"result": "grown"}


async def test_a_changed_tool_of_a_legacy_server_is_not_called_on_an_old_decision() -> None:
    """The approval was for another description, so the call is refused before it is made."""
    script = scripted({"change": {"$": "replace_tools"}, "say": {"content": []}})
    async with running({"raw": raw_entry(script)}) as bench:
        await bench.ready("raw")
        decided_on = bench.spec("raw", "say")
        await bench.call("raw", "change", {"tools": [SAY]})
        await await_until(
            lambda: bench.spec("raw", "say").description == "Say so.", "the new description"
        )
        with pytest.raises(ToolError) as caught:
            await bench.call("raw", "say", spec_hash=decided_on.spec_hash)

        assert caught.value.code == "tool.spec_changed"


async def test_a_malformed_tool_drops_only_itself() -> None:
    """Four of six tools are unusable; the two others are offered."""
    tools = [
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "bare"},
        {"nonsense": 1},
        {"name": "text", "inputSchema": "a string"},
        {"name": "hints", "annotations": {"readOnlyHint": "maybe"}},
        {"name": "remote", "inputSchema": {"type": "object", "$ref": "http://example.test/x"}},
    ]
    async with running({"raw": raw_entry({"tools": tools, "answers": {}})}) as bench:
        await bench.ready("raw")
        names = [spec.name for spec in bench.owner("raw").specs]

        assert names == ["mcp.raw.bare", "mcp.raw.good"]
        assert bench.spec("raw", "bare").input_schema == {"type": "object", "properties": {}}


async def test_all_pages_of_a_listing_are_taken() -> None:
    """Three pages, one tool each."""
    pages = [[{"name": f"tool_{page}"}] for page in range(3)]
    async with running({"raw": raw_entry({"tools": pages, "answers": {}})}) as bench:
        await bench.ready("raw")

        assert len(bench.owner("raw").specs) == 3


async def test_content_of_an_unknown_kind_is_kept_as_json() -> None:
    """A block the protocol does not know costs neither itself nor its neighbours."""
    blocks = [{"type": "text", "text": "before"}, {"type": "video", "data": "x"}]
    script = scripted({"odd": {"content": blocks}})
    async with running({"raw": raw_entry(script)}) as bench:
        await bench.ready("raw")
        first, second = (await bench.call("raw", "odd")).content

        assert first.kind == "text"
        assert second == JsonBlock(value={"type": "video", "data": "x"})


async def test_an_error_of_the_tool_is_an_answer_for_the_model() -> None:
    """`isError` becomes a recoverable result in the server's words and ours."""
    answer = {"isError": True, "content": [{"type": "text", "text": "no such city"}]}
    async with running({"raw": raw_entry(scripted({"fail": answer}))}) as bench:
        await bench.ready("raw")
        output = await bench.call("raw", "fail")

        assert output.error_code == "tool.mcp_error"
        assert output.error_class is ErrorClass.RECOVERABLE
        assert text_of(output).startswith("no such city")
        assert "correct the call" in text_of(output)


@pytest.mark.parametrize(
    ("code", "expected"), [(-32602, "tool.invalid_arguments"), (-32603, "mcp.protocol_error")]
)
async def test_an_error_answer_of_the_protocol_is_recoverable(code: int, expected: str) -> None:
    """The message of the server is kept, the run goes on."""
    async with running({"raw": raw_entry(scripted({"refuse": {"$": "refuse"}}))}) as bench:
        await bench.ready("raw")
        with pytest.raises(ToolError, match="refused so") as caught:
            await bench.call("raw", "refuse", {"code": code})

        assert caught.value.code == expected


async def test_a_server_gets_no_variable_it_was_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither our secrets nor the developer's; only what the entry names."""
    monkeypatch.setenv("TOOLRAIL_SECRET", "not for servers, ever")
    monkeypatch.setenv("OTHER_TOKEN", "not for this server")
    monkeypatch.setenv("GIVEN_TOKEN", "for this server")
    entry = raw_entry(
        scripted({"environment": {"$": "tell_environment"}}), env_passthrough=["GIVEN_TOKEN"]
    )
    entry["env"] = {"AUTH": "Bearer ${GIVEN_TOKEN}", "PLAIN": "x"}
    async with running({"raw": entry}) as bench:
        await bench.ready("raw")
        variables = json.loads(text_of(await bench.call("raw", "environment")))

        assert variables["AUTH"] == "Bearer for this server"
        assert variables["PLAIN"] == "x"
        assert not {"TOOLRAIL_SECRET", "OTHER_TOKEN"} & variables.keys()


async def test_a_tool_nobody_offers_is_unavailable_not_fatal(tmp_path: Path) -> None:
    """A registry may be older than the server; the model is told to try later."""
    async with running({"sdk": sdk_entry(tmp_path / "cancelled")}) as bench:
        await bench.ready("sdk")
        gone = bench.spec("sdk", "echo").model_copy(update={"name": "mcp.sdk.was_here"})
        with pytest.raises(ToolError) as caught:
            await bench.run(claimed(gone, {}))

        assert caught.value.code == "mcp.server_unavailable"
