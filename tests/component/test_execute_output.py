"""What a tool answered, as its caller, a program and the journal get it."""

from tests.workers import WorkerBench
from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import EventType, ResourceRefBlock, TextBlock, parse_ref
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
