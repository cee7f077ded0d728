"""What a process-isolated tool may use, print, return and see.

Is: the limits of children. Is not: crashes and deadlines (`test_isolation_process.py`).
Above: pytest. Below: `tests/isolated.py`, `isolation_tools.py`.
"""

import logging
from pathlib import Path

import pytest

from tests.isolated import (
    CALL_KEY,
    LIMIT_BYTES,
    Run,
    call_of,
    pool,
    run,
    single,
    started,
    tools_importable,
)
from tests.waiting import await_until
from toolrail_workers.isolation.child import ChildLimits
from toolrail_workers.isolation.errors import InvalidOutput, OutputTooLarge, ToolRaised
from toolrail_workers.isolation.process import ProcessChildren

__all__ = ["pool", "run", "single", "tools_importable"]


async def test_a_tool_without_memory_gets_an_error_not_the_machine() -> None:
    """With an address space limit, an allocation beyond it fails inside the tool."""
    pool = await started(limits=ChildLimits(address_space_bytes=2 << 30))
    with pytest.raises(ToolRaised, match="MemoryError"):
        await pool.call(call_of("eat_memory"))

    assert await pool.call(call_of("echo", n=1)) == {"n": 1}
    await pool.stop()


async def test_a_result_over_the_limit_is_refused_in_the_child(run: Run) -> None:
    """The worker learns the size and never sees the bytes."""
    with pytest.raises(OutputTooLarge) as caught:
        await run("much", size=300_000_000)

    assert caught.value.size_bytes == 300_000_002
    assert caught.value.code == "tool.output_too_large"
    assert await run("much", size=10) == "x" * 10


async def test_a_result_just_within_the_limit_arrives(run: Run) -> None:
    """The limit is on the JSON of the result, quotes included."""
    assert await run("much", size=LIMIT_BYTES - 2) == "x" * (LIMIT_BYTES - 2)
    with pytest.raises(OutputTooLarge):
        await run("much", size=LIMIT_BYTES - 1)


async def test_a_result_without_json_form_is_invalid_output(run: Run) -> None:
    """A lock is not a result."""
    with pytest.raises(InvalidOutput) as caught:
        await run("not_json")

    assert caught.value.code == "tool.invalid_output"


async def test_printing_goes_to_the_log_and_not_into_the_answer(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """Python prints and raw writes arrive as log lines for debugging, with the call's key."""
    caplog.set_level(logging.DEBUG)
    answer = await run("shout", lines=3)

    def lines() -> list[str]:
        return [record.__dict__["line"] for record in caplog.records if hasattr(record, "line")]

    await await_until(lambda: len(lines()) == 4, "four lines")
    assert answer == "done"
    assert sorted(lines()) == ["line 0", "line 1", "line 2", "raw bytes on fd 2"]
    assert {
        (record.levelname, record.__dict__["call_key"])
        for record in caplog.records
        if hasattr(record, "line")
    } == {("DEBUG", CALL_KEY)}


async def test_a_flood_of_printing_is_cut_and_the_call_still_answers(
    pool: ProcessChildren, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten megabytes of output cost the log only its limit."""
    caplog.set_level(logging.DEBUG)
    answer = await pool.call(call_of("flood", size=10_000_000))
    await pool.stop()

    logged = sum(len(record.__dict__.get("line", "")) for record in caplog.records)
    assert answer == "done"
    assert logged <= 65_536
    assert any("output_dropped" in record.message for record in caplog.records)


async def test_a_tool_may_close_its_standard_streams(single: ProcessChildren) -> None:
    """The channel of the calls is none of the standard descriptors."""
    assert await single.call(call_of("close_everything")) == "still here"
    with pytest.raises(ToolRaised, match="ValueError"):
        await single.call(call_of("raise_value_error", text="x"))

    assert await single.call(call_of("echo", n=1)) == {"n": 1}


async def test_a_tool_that_changes_directory_does_not_move_the_next(
    single: ProcessChildren, tmp_path: Path
) -> None:
    """The working directory is restored between calls."""
    home = await single.call(call_of("where"))

    assert await single.call(call_of("move", folder=str(tmp_path))) == str(tmp_path)
    assert await single.call(call_of("where")) == home


async def test_a_child_has_no_core_dumps_no_input_and_no_foreign_sockets(run: Run) -> None:
    """What the tool could leak through is closed."""
    assert await run("core_limit") == [0, 0]
    assert await run("stdin_is_empty") is True
    assert await run("descriptors") == []


async def test_a_child_sees_only_the_given_variables() -> None:
    """Nothing of the worker's environment passes unless it was given."""
    pool = ProcessChildren(children=1, calls_per_child=10, environment={"SHOP": "x"})
    await pool.start()

    names = await pool.call(call_of("variables"))
    await pool.stop()

    assert isinstance(names, list)
    assert set(map(str, names)) - {"LC_CTYPE"} == {"PYTHONPATH", "SHOP"}
