"""Every way a tool can end, and the words and class its caller gets."""

from dataclasses import replace

import pytest

from tests.functions import READS, SENDS, make_spec
from toolrail.errors import SystemFailure, ToolError
from toolrail.tools import ToolOutput
from toolrail_schemas import (
    Annotations,
    Caller,
    ErrorClass,
    ImageRefBlock,
    Source,
    TextBlock,
    ToolResult,
    ToolSpec,
    artifact_ref,
    format_run_id,
    sha256_hex,
)
from toolrail_workers.answers import Answers, Spent
from toolrail_workers.executor import ClaimedCall
from toolrail_workers.isolation.errors import ChildDied
from toolrail_workers.running import Ended, StopReason

SPENT = Spent(queue_ms=1, duration_ms=2, attempts=1)


def answer(
    ended: Ended,
    *,
    annotations: Annotations = READS,
    source: Source = Source.BUILTIN,
    stopped: StopReason | None = None,
) -> ToolResult:
    """Return what is answered to a call of a tool that ended so."""
    name = "mcp.demo.tool" if source is Source.MCP else "demo.tool"
    spec = make_spec(name, annotations=annotations, source=source)
    call = call_of(spec)
    return Answers().of_ended(call, spec, ended, stopped=stopped, spent=SPENT).result


def call_of(spec: ToolSpec) -> ClaimedCall:
    """Return a claimed call of the tool."""
    return ClaimedCall(
        run_id=format_run_id(1, b"0123456789"),
        call_key="0" * 16,
        call_id="c1",
        tool=spec.name,
        source=spec.source,
        spec_hash=spec.spec_hash,
        arguments={},
        attempt=1,
        fence=1,
        caller=Caller.ASSISTANT,
        tenant="t",
        profile="p",
        turn=0,
        timeout_s=1.0,
        max_output_bytes=1000,
        max_output_tokens=1000,
        policy_hash="",
        client="c",
    )


def text(result: ToolResult) -> str:
    """Return the first text of a result."""
    block = result.content[0]
    assert isinstance(block, TextBlock)
    return block.text


def test_advice_comes_from_the_tool_or_else_from_the_table() -> None:
    """A model is told what to do next, once."""
    own = ToolError("tool.timeout", "Too slow.", next_action="Wait.")
    usual = ToolError("tool.timeout", "Too slow.")
    unknown = ToolError("demo.odd", "Odd.")

    assert text(answer(Ended(error=own))) == "Too slow. Wait."
    assert text(answer(Ended(error=usual))).startswith("Too slow. Ask for less")
    assert text(answer(Ended(error=unknown))) == "Odd."


def test_words_of_a_tool_are_cut_but_its_advice_is_kept() -> None:
    """At most 2000 characters reach the model."""
    error = ToolError("demo.long", "x" * 5000, next_action="Stop.")

    assert len(text(answer(Ended(error=error)))) == 2000
    assert text(answer(Ended(error=error))).endswith(" Stop.")


@pytest.mark.parametrize("code", ["", "Nope", "no dots", "a.B", "x." + "y" * 200])
def test_a_code_that_is_none_becomes_the_usual_one(code: str) -> None:
    """A tool's own codes are welcome when they are codes."""
    assert answer(Ended(error=ToolError(code, "Failed."))).error_code == "tool.execution_failed"


def test_a_tool_cannot_end_the_run_by_the_choice_of_a_code() -> None:
    """Only a SystemFailure does."""
    said = answer(Ended(error=ToolError("workspace.io_failed", "Disk full.")))
    meant = answer(Ended(error=SystemFailure("workspace.io_failed", "Disk full.")))

    assert said.error_class is ErrorClass.RECOVERABLE
    assert meant.error_class is ErrorClass.SYSTEM


def test_a_forbidden_effect_is_a_matter_of_policy() -> None:
    """The table says so, and it does not fail the run."""
    error = ToolError("extension.forbidden_effect", "It tried to write.")

    assert answer(Ended(error=error)).error_class is ErrorClass.POLICY_DENIED


def test_repair_data_that_cannot_be_carried_is_left_out() -> None:
    """The error itself still reaches the model."""
    fits = ToolError("demo.x", "Failed.", structured={"line": 3})
    huge = ToolError("demo.x", "Failed.", structured="x" * 300_000)
    odd = ToolError("demo.x", "Failed.", structured=object())

    assert answer(Ended(error=fits)).structured == {"line": 3}
    assert answer(Ended(error=huge)).structured is None
    assert answer(Ended(error=odd)).structured is None


@pytest.mark.parametrize("error", [ChildDied(-11), ToolError("tool.timeout", "Killed.")])
def test_a_process_that_died_may_have_had_its_effect(error: ToolError) -> None:
    """For a reading tool it is just a failure."""
    assert answer(Ended(error=error), annotations=SENDS).error_code == "tool.outcome_unknown"
    assert answer(Ended(error=error)).error_code == error.code


def test_work_that_was_done_stands_although_it_was_to_stop() -> None:
    """To report a cancel would hide an effect."""
    ended = Ended(output=ToolOutput.text("sent"))

    assert not answer(ended, stopped=StopReason.CANCEL).is_error


def test_errors_of_a_stopped_tool_are_the_stop() -> None:
    """A closed connection is how a cancel looks from inside; a failed rollback is not."""
    torn = Ended(error=ToolError("demo.closed", "Connection closed."))
    broken = Ended(error=SystemFailure("workspace.rollback_failed", "Broken."))

    assert answer(torn, stopped=StopReason.CANCEL).error_code == "tool.cancelled"
    assert answer(broken, stopped=StopReason.CANCEL).error_code == "workspace.rollback_failed"


def test_a_cancel_says_when_the_effect_may_have_happened() -> None:
    """Unless the tool never started."""
    sends = answer(Ended(), annotations=SENDS, stopped=StopReason.CANCEL)
    never = answer(Ended(started=False), annotations=SENDS, stopped=StopReason.CANCEL)

    assert "may have happened" in text(sends)
    assert "may have happened" not in text(never)


def test_a_worker_that_went_before_the_start_says_that_nothing_happened() -> None:
    """Whatever the tool would have done."""
    ended = Ended(started=False)
    result = answer(ended, annotations=SENDS, stopped=StopReason.SHUTDOWN)

    assert result.error_code == "tool.worker_lost"


def test_a_tool_that_cancels_itself_has_a_defect() -> None:
    """Nobody asked for it."""
    assert answer(Ended()).error_code == "tool.internal_error"
    assert answer(Ended(), source=Source.MCP).error_code == "tool.execution_failed"


def test_an_error_of_an_mcp_server_never_fails_the_run() -> None:
    """Not even under a code of ours."""
    output = ToolOutput(is_error=True, error_code="workspace.io_failed")
    result = answer(Ended(output=output), source=Source.MCP)

    assert result.error_class is ErrorClass.RECOVERABLE


def test_an_edit_is_told_of_beside_any_output() -> None:
    """As many blocks as a result may have, and none of them text: nothing is lost for the notice.

    What makes room is stored with the rest, under a ref.
    """
    run_id = format_run_id(1, b"0123456789")
    images = tuple(
        ImageRefBlock(
            ref=artifact_ref(run_id, sha256_hex(str(n).encode())),
            mime="image/png",
            bytes=1,
            sha256=sha256_hex(str(n).encode()),
        )
        for n in range(32)
    )
    spec = make_spec("demo.tool", annotations=READS)
    call = replace(call_of(spec), edited="EDIT")
    for is_error in (False, True):
        ended = Ended(output=ToolOutput(content=images, is_error=is_error))
        told = Answers().of_ended(call, spec, ended, stopped=None, spent=SPENT)

        assert isinstance(told.result.content[0], TextBlock)
        assert "EDIT" in told.result.content[0].text
        assert told.result.truncated
        [spill] = told.spills
        assert all(image.ref.encode() in spill.data for image in images)
        ToolResult.model_validate_json(told.result.model_dump_json())
