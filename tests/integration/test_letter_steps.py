"""The steps of a redrive in the ledger: each belongs to the claim that it was made under.

Is: `letter.lua`, one step at a time. Is not: whole redrives (`test_redriving.py`). Above: nothing.
Below: `tests/letters.py`.
"""

from pathlib import Path

from tests.cells import open_cell, opened, write_policy
from tests.letters import listed, make_letter, record_of
from tests.promises import promise
from toolrail import Settings
from toolrail.dead_letters import DeadLetters


@promise("letter.redriven-once")
async def test_a_step_of_an_earlier_redrive_does_not_move_a_later_one(
    settings: Settings, tmp_path: Path
) -> None:
    """An operator who was cut off and comes back late neither aims nor settles for the next."""
    folder = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        run = await opened(cell)
        letter = await make_letter(cell, run)
        await run.complete()
        run_id, _, key = letter.partition(".")
        letters = DeadLetters(cell.bench.redis, prefix=settings.key_prefix, deadline_s=5).letters
        first = await letters.claim(run_id, key, nonce="1", by="ann", effect_may_repeat=False)
        await letters.refused(run_id, key, number=first.number, code="policy.denied")
        unclaimed = await letters.accepted(run_id, key, number=first.number, new_call="r.zero")
        second = await letters.claim(run_id, key, nonce="2", by="bob", effect_may_repeat=False)
        late = [
            await letters.aim(run_id, key, number=first.number, target="late"),
            await letters.accepted(run_id, key, number=first.number, new_call="r.late"),
            await letters.refused(run_id, key, number=first.number, code="late"),
        ]
        still, record = await listed(cell), await record_of(cell, letter)
        done = await letters.accepted(run_id, key, number=second.number, new_call="r.new")
        settled = (await record_of(cell, letter)).fields

    assert (first.number, second.number) == (1, 2)
    assert unclaimed.status == "stale"
    assert [answer.status for answer in late] == ["stale"] * 3
    assert still == [letter]
    assert record.fields["redrive_refused"] == "policy.denied"
    assert "redriving_into" not in record.fields
    assert (done.status, settled["redriven_as"], settled["redriven_by"]) == ("done", "r.new", "bob")
