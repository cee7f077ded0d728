"""What a tool answered, as its caller, a program and the journal get it."""

import pytest

from tests.workers import WorkerBench
from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import (
    ErrorClass,
    EventType,
    JsonObject,
    ResourceRefBlock,
    TextBlock,
    args_ref,
    artifact_ref,
    parse_ref,
    result_ref,
)
from toolrail_workers.executor import ClaimedCall


def answers(output: ToolOutput):  # type: ignore[no-untyped-def]
    """Return a tool with this output."""

    async def function(call: ClaimedCall, context: ToolContext) -> ToolOutput:
        return output

    return function


async def test_structured_output_keeps_the_promise_of_its_schema(bench: WorkerBench) -> None:
    """A program that reads it was promised a shape."""
    schema = {"type": "object", "required": ["city"]}
    good = bench.add("demo.good", answers(ToolOutput(structured={"city": "Ulm"})),
                     output_schema=schema)  # fmt: skip
    bad = bench.add("demo.bad", answers(ToolOutput(structured={"town": "Ulm"})),
                    output_schema=schema)  # fmt: skip
    await bench.start_worker()
    kept, broken = await bench.run_call(good, "c1"), await bench.run_call(bad, "c2")

    assert kept.structured == {"city": "Ulm"}
    assert broken.error_code == "tool.invalid_output"
    assert "city" in broken.model_dump_json()


async def test_a_long_output_can_be_read_whole_by_its_ref(bench: WorkerBench) -> None:
    """What the model is shown is cut; what is stored is not."""
    text = "one line of many\n" * 5000
    spec = bench.add("demo.long", answers(ToolOutput.text(text)))
    await bench.start_worker()
    result = await bench.run_call(spec)
    last = result.content[-1]
    assert isinstance(last, ResourceRefBlock)
    ref = parse_ref(last.uri)

    assert result.truncated
    assert (await bench.calls.blobs.get(ref.target.split("/")[1])).decode() == text


async def test_an_output_over_its_stored_limit_is_an_error(bench: WorkerBench) -> None:
    """The model can ask for less."""
    spec = bench.add("demo.huge", answers(ToolOutput.text("x" * 10_000)))
    await bench.start_worker()
    result = await bench.run_call(spec, max_output_bytes=5000)

    assert result.error_code == "tool.output_too_large"


async def test_a_large_result_is_stored_beside_its_record(bench: WorkerBench) -> None:
    """The record holds a digest; the result comes back the same."""
    spec = bench.add("demo.large", answers(ToolOutput.text("word " * 8000)))
    await bench.start_worker(inline_result_bytes=1000)
    result = await bench.run_call(spec, max_output_tokens=100_000)
    record = await bench.calls.call("c1")

    assert record.fields["result"] == ""
    assert record.fields["result_blob"] != ""
    assert result.content == (TextBlock(text="word " * 8000),)


async def test_what_a_tool_did_is_journaled_before_its_result(bench: WorkerBench) -> None:
    """Effect, then result, then outcome; and no tool writes its own outcome."""
    output = ToolOutput(
        events=(
            (EventType.WORKSPACE_FILE_WRITTEN, {"path": "output/a.md", "bytes": 3}),
            (EventType.TOOL_CALL_COMPLETED, {}),
            (EventType.CHECKPOINT_CREATED, {"content": "must not enter the journal"}),
        )
    )
    spec = bench.add("demo.write", answers(output))
    await bench.start_worker()
    await bench.run_call(spec)
    events = await bench.calls.events()

    assert [event.type.value for event in events[3:]] == [
        "tool_call_started",
        "workspace_file_written",
        "checkpoint_created",
        "tool_result_stored",
        "tool_call_completed",
    ]
    assert events[4].payload["path"] == "output/a.md"
    assert "must not" not in str(events[5].payload)


async def test_an_error_output_of_a_tool_keeps_its_words(bench: WorkerBench) -> None:
    """MCP servers answer errors with content."""
    said = ToolOutput(content=(TextBlock(text="No such issue."),), is_error=True)
    mute = ToolOutput(is_error=True, error_code="demo.mute")
    first = bench.add("demo.said", answers(said))
    second = bench.add("demo.mute", answers(mute))
    await bench.start_worker()
    one, two = await bench.run_call(first, "c1"), await bench.run_call(second, "c2")

    assert one.content == said.content
    assert one.error_code == "tool.execution_failed"
    assert two.error_code == "demo.mute"
    assert any(isinstance(block, TextBlock) and block.text for block in two.content)


@pytest.mark.parametrize("artifact", ["f" * 64, "report.pdf"])
async def test_a_ref_to_an_artifact_that_is_not_there_is_the_tools_mistake(
    bench: WorkerBench, artifact: str
) -> None:
    """The run goes on, and what the tool did stays in the journal."""
    ref = artifact_ref(bench.calls.run_id, artifact)
    did: tuple[EventType, JsonObject] = (
        EventType.WORKSPACE_FILE_WRITTEN,
        {"path": "output/a.md"},
    )
    spec = bench.add("demo.refer", answers(ToolOutput(resource_refs=(ref,), events=(did,))))
    await bench.start_worker()
    result = await bench.run_call(spec)

    assert (result.error_code, result.error_class) == (
        "tool.invalid_output",
        ErrorClass.RECOVERABLE,
    )
    assert result.resource_refs == ()
    assert artifact[:40] in result.model_dump_json()
    assert "workspace_file_written" in await bench.calls.kinds()
    assert await bench.run_status() == "open"


async def test_a_ref_to_what_is_stored_goes_through(bench: WorkerBench) -> None:
    """Stored by the call itself, by an earlier one, or as a call's own record."""

    async def refer(call: ClaimedCall, context: ToolContext) -> ToolOutput:
        assert context.store is not None
        own = await context.store.put_blob(b"own", "text/plain")
        refs = (
            artifact_ref(call.run_id, own),
            artifact_ref(call.run_id, earlier),
            result_ref(call.call_key),
            args_ref(call.call_key),
        )
        return ToolOutput(resource_refs=refs)

    earlier = await bench.calls.blobs.put(b"earlier")
    spec = bench.add("demo.refer", refer)
    await bench.start_worker()
    result = await bench.run_call(spec)

    assert not result.is_error
    assert len(result.resource_refs) == 4


async def test_a_ref_to_a_call_that_never_was_is_the_tools_mistake(bench: WorkerBench) -> None:
    """Of several refs the wrong one is named."""
    refs = (result_ref(bench.calls.key("c1")), result_ref("0" * 16))
    spec = bench.add("demo.refer", answers(ToolOutput(resource_refs=refs)))
    await bench.start_worker()
    result = await bench.run_call(spec)

    assert result.error_code == "tool.invalid_output"
    assert refs[1] in result.model_dump_json()
    assert refs[0] not in result.model_dump_json()
