"""Dead letters become new calls: once, under policy, with provenance, and never behind a guard.

Is: `toolrail.redriving` and `toolrail.dead_letters` on a real ledger. Is not: the command line
(`test_cli_dlq.py`). Above: nothing. Below: `tests/letters.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.cells import Cell, open_cell, opened, serve, write_policy
from tests.letters import listed, lose, make_letter, record_of, stored
from tests.promises import promise
from toolrail import CallRequest, Settings, Toolrail
from toolrail.dead_letters import DeadLetters, LetterNotFound, LetterRefused
from toolrail.errors import RedisUnavailable, UnknownProfile
from toolrail.redis_io import command, connect
from toolrail.redriving import Redriven, Redriver, redrive_id
from toolrail_schemas import Caller, JournalEvent

UNKNOWN = "tool.outcome_unknown"


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client under the policy of these tests."""
    folder = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        yield cell


def redriver(cell: Cell) -> Redriver:
    """Return what redrives the letters of the cell."""
    return Redriver(cell.rail, cell.bench.redis, cell.settings)


def dead(cell: Cell) -> DeadLetters:
    """Return what looks after the letters of the cell."""
    return DeadLetters(cell.bench.redis, prefix=cell.settings.key_prefix, deadline_s=5)


async def requested(cell: Cell, done: Redriven) -> JournalEvent:
    """Return the first event of a redriven call."""
    run = await cell.rail.run(done.ticket.run_id)
    for event in await run.journal():
        if isinstance(event, JournalEvent) and event.payload.get("call_id") == done.ticket.call_id:
            return event
    raise AssertionError("the call is not in the journal")


async def test_a_letter_of_an_open_run_is_called_again_in_it(cell: Cell) -> None:
    """Same tool, arguments, turn and caller under a new id; both sides say where it came from."""
    run = await opened(cell)
    letter = await make_letter(cell, run, metadata={"signature": "abc"})
    done = await redriver(cell).redrive(letter, by="ann")
    async with serve(cell):
        seen = await redriver(cell).see_through(done, timeout_s=10)
    old, new = await record_of(cell, letter), await stored(cell, run.id, done.ticket.call_key)
    first = await requested(cell, done)
    totals = await cell.bench.reader.totals()

    assert (done.is_accepted, done.is_new_run, done.ticket.call_id) == (True, False, "c1.redrive.1")
    assert (seen.ticket.state, seen.error_code) == ("completed", "")
    assert old.fields["redriven_as"] == f"{run.id}.{done.ticket.call_key}"
    assert (old.fields["redriven_by"], old.state) == ("ann", "failed")
    assert old.number("redriven_ms") > 0
    assert (new.fields["redrive_of"], new.fields["redrive_by"]) == (letter, "ann")
    same = ("tool", "args", "args_sha256", "turn", "caller", "tenant", "profile", "metadata_blob")
    assert [new.fields[name] for name in same] == [old.fields[name] for name in same]
    assert (first.payload["redrive_of"], first.payload["redrive_by"]) == (letter, "ann")
    assert await listed(cell) == []
    assert totals["dead_letter_redriven:builtin"] == 1
    assert await run.status() == "open"


async def test_a_letter_of_an_ended_run_gets_a_run_like_it(cell: Cell) -> None:
    """Tenant, user, surface, caller and approval mode are the old ones, the policy is today's."""
    run = await opened(
        cell, tenant="acme", user="ann", caller=Caller.SUBAGENT, approval_mode="interactive"
    )
    letter = await make_letter(cell, run)
    await run.complete()
    done = await redriver(cell).redrive(letter, by="bob")
    made = await cell.rail.run(done.ticket.run_id)
    left = {"name": None, "policy_hash": None}
    async with serve(cell):
        seen = await redriver(cell).see_through(done, timeout_s=10)

    assert done.is_new_run
    assert made.id != run.id
    assert made.spec.model_copy(update=left) == run.spec.model_copy(update=left)
    assert (await requested(cell, done)).payload["redrive_of"] == letter
    assert (seen.ticket.state, await made.status()) == ("completed", "completed")


async def test_policy_is_asked_again_and_a_refusal_leaves_the_letter(cell: Cell) -> None:
    """What the profile denies by now is not called; the next redrive has the next number."""
    run = await opened(cell)
    letter = await make_letter(cell, run)
    await run.complete()
    folder = cell.settings.policy_dir
    assert folder is not None
    profile = folder / "profiles" / "agent.toml"
    before = profile.read_text(encoding="utf-8")
    profile.write_text('deny = ["demo.*"]\n', encoding="utf-8")
    async with Toolrail(cell.settings) as strict:
        denied = await Redriver(strict, cell.bench.redis, cell.settings).redrive(letter, by="ann")
    still, record = await listed(cell), await record_of(cell, letter)
    profile.write_text(before, encoding="utf-8")
    done = await redriver(cell).redrive(letter, by="ann")
    for run_id in (denied.ticket.run_id, done.ticket.run_id):
        await (await cell.rail.run(run_id)).cancel()

    assert (denied.is_accepted, denied.error_code) == (False, "policy.denied")
    assert denied.ticket.state == "denied"
    assert still == [letter]
    assert record.fields["redrive_refused"] == "policy.denied"
    assert "redriven_as" not in record.fields
    assert (done.is_accepted, done.ticket.call_id) == (True, "c1.redrive.2")


async def test_a_redrive_waits_for_a_person_where_the_policy_says_so(cell: Cell) -> None:
    """It parks like any call, and nothing runs before the decision."""
    run = await opened(cell, approval_mode="interactive")
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.ask", arguments={"text": "a"}))
    await cell.rail.approvals.approve(ticket.approval_id, by="ann")
    await lose(cell, run.id, ticket.call_key)
    done = await redriver(cell).redrive(ticket.approval_id, by="bob")
    seen = await redriver(cell).see_through(done, timeout_s=0)
    async with serve(cell):
        await cell.rail.approvals.approve(done.ticket.approval_id, by="ann")
        result = await run.wait(done.ticket, timeout_s=10)

    assert (done.is_accepted, seen.ticket.state) == (True, "awaiting_approval")
    assert not result.is_error


@promise("letter.redriven-once")
async def test_an_unknown_outcome_is_not_redriven_without_a_word_for_it(cell: Cell) -> None:
    """Neither in its run nor in a new one, which would not know of it; the refusal says why."""
    run = await opened(cell)
    letter = await make_letter(cell, run, code=UNKNOWN)
    refusals: list[str] = []
    for _ in range(2):
        with pytest.raises(LetterRefused, match="effect may have happened") as refused:
            await redriver(cell).redrive(letter, by="ann")
        refusals.append(refused.value.message)
        await run.complete()
    before = await record_of(cell, letter)
    done = await redriver(cell).redrive(letter, by="ann", effect_may_repeat=True)
    await (await cell.rail.run(done.ticket.run_id)).cancel()

    assert all("--effect-may-repeat" in text for text in refusals)
    assert "redrives" not in before.fields
    assert (done.is_accepted, done.is_new_run) == (True, True)


async def test_within_its_run_an_unknown_outcome_still_asks_a_person(cell: Cell) -> None:
    """The operator's word is no approval: the guard of the run stands beside it."""
    run = await opened(cell, approval_mode="interactive")
    letter = await make_letter(cell, run, code=UNKNOWN)
    done = await redriver(cell).redrive(letter, by="ann", effect_may_repeat=True)
    await run.cancel()

    assert (done.is_accepted, done.ticket.state) == (True, "awaiting_approval")


@promise("letter.redriven-once")
@pytest.mark.parametrize("ended", [False, True], ids=["in its run", "in a new run"])
async def test_operators_who_redrive_at_once_make_one_call(cell: Cell, ended: bool) -> None:
    """Each has a client of his own; every one is told of the same call, and it was made once."""
    run = await opened(cell)
    letters = [await make_letter(cell, run, f"c{n}", text=f"text {n}") for n in range(5)]
    if ended:
        await run.complete()
    async with AsyncExitStack() as stack:
        rails = [await stack.enter_async_context(Toolrail(cell.settings)) for _ in range(4)]
        redis = [connect(cell.settings.redis_url, timeout_s=5, name=f"o{n}") for n in range(4)]
        operators = [
            Redriver(rail, own, cell.settings) for rail, own in zip(rails, redis, strict=True)
        ]
        done = await asyncio.gather(
            *(
                operator.redrive(letter, by=f"operator {n}")
                for letter in letters
                for n, operator in enumerate(operators)
            )
        )
        for own in redis:
            await own.aclose()
    totals = await cell.bench.reader.totals()
    made = {(one.letter_id, one.ticket.run_id, one.ticket.call_key, one.by) for one in done}
    for run_id in {one.ticket.run_id for one in done}:
        await (await cell.rail.run(run_id)).cancel()

    assert all(one.is_accepted for one in done)
    assert len(made) == 5
    assert totals["dead_letter_redriven:builtin"] == 5
    assert totals["accepted:builtin"] == 10
    assert await listed(cell) == []


@pytest.mark.parametrize("step", ["claim", "aim", "dispatch"])
async def test_a_redrive_that_was_cut_off_is_finished_by_the_next(cell: Cell, step: str) -> None:
    """After any step; the first operator keeps the credit, and there is one call."""
    run = await opened(cell)
    letter = await make_letter(cell, run)
    await run.complete()
    place = letter.partition(".")[::2]
    letters = dead(cell).letters
    claimed = await letters.claim(*place, nonce="n", by="ann", effect_may_repeat=False)
    if step != "claim":
        made = await opened(cell, name=f"redrive 1 of {letter}")
        await letters.aim(*place, number=1, target=made.id)
        if step == "dispatch":
            await made.dispatch(
                CallRequest(id="c1.redrive.1", name="demo.echo", arguments={"text": "plain words"})
            )
    done = await redriver(cell).redrive(letter, by="bob")
    again = await redriver(cell).redrive(letter, by="bob")
    calls = (await cell.bench.reader.totals())["accepted:builtin"]
    await (await cell.rail.run(done.ticket.run_id)).cancel()

    assert claimed.status == "claimed"
    assert (done.by, again.by, again.was_before) == ("ann", "ann", True)
    assert done.ticket.call_key == again.ticket.call_key
    assert calls == 2


async def test_a_run_that_ends_in_between_does_not_hold_a_letter(cell: Cell) -> None:
    """The claim was for the run; the redrive goes on in a new one under the next number."""
    run = await opened(cell)
    letter = await make_letter(cell, run)
    place = letter.partition(".")[::2]
    await dead(cell).letters.claim(*place, nonce="n", by="ann", effect_may_repeat=False)
    await run.complete()
    done = await redriver(cell).redrive(letter, by="bob")
    await (await cell.rail.run(done.ticket.run_id)).cancel()

    assert (done.is_new_run, done.ticket.call_id, done.by) == (True, "c1.redrive.2", "bob")


async def test_a_redrive_that_no_policy_here_allows_frees_its_letter(
    cell: Cell, tmp_path: Path
) -> None:
    """A machine without the run's profile cannot redrive, and holds nobody else up."""
    run = await opened(cell)
    letter = await make_letter(cell, run)
    await run.complete()
    bare = write_policy(tmp_path / "bare")
    (bare / "profiles" / "agent.toml").unlink()
    async with Toolrail(cell.settings.model_copy(update={"policy_dir": bare})) as rail:
        here = Redriver(rail, cell.bench.redis, cell.settings)
        with pytest.raises(UnknownProfile):
            await here.redrive(letter, by="ann")

    assert await listed(cell) == [letter]
    await dead(cell).discard(letter, by="bob")
    assert await listed(cell) == []


async def test_an_id_that_somebody_else_used_is_passed_over(cell: Cell) -> None:
    """A model may have made a call of the very name."""
    run = await opened(cell)
    letter = await make_letter(cell, run)
    await run.dispatch(CallRequest(id="c1.redrive.1", name="demo.echo", arguments={"text": "mine"}))
    done = await redriver(cell).redrive(letter, by="ann")
    await run.cancel()

    assert (done.ticket.call_id, done.is_accepted) == ("c1.redrive.2", True)


async def test_a_redrive_that_dies_again_is_a_letter_of_its_own(cell: Cell) -> None:
    """The chain can be followed backwards."""
    run = await opened(cell)
    letter = await make_letter(cell, run)
    done = await redriver(cell).redrive(letter, by="ann")
    await lose(cell, run.id, done.ticket.call_key)
    second = f"{run.id}.{done.ticket.call_key}"
    again = await redriver(cell).redrive(second, by="ann")
    await run.cancel()

    assert again.ticket.call_id == "c1.redrive.1.redrive.1"
    assert (await dead(cell).get(second)).redrive_of == letter


async def test_a_discarded_letter_is_off_the_list_and_kept(cell: Cell) -> None:
    """The record says by whom; nobody redrives it any more, discarding again is no change."""
    run = await opened(cell)
    letter = await make_letter(cell, run)
    for by in ("ann", "ann", "bob"):
        await dead(cell).discard(letter, by=by)
    shown = await dead(cell).get(letter)
    totals = await cell.bench.reader.totals()

    assert (shown.discarded_by, shown.dead_ms, await listed(cell)) == ("ann", 0, [])
    assert totals["dead_letter_discarded:builtin"] == 1
    with pytest.raises(LetterRefused, match="discarded by 'ann'"):
        await redriver(cell).redrive(letter, by="bob")
    await run.complete()


async def test_a_letter_in_somebodys_hands_is_not_discarded(cell: Cell) -> None:
    """A redrive that was begun comes first, and one that was made stays made."""
    run = await opened(cell)
    letter = await make_letter(cell, run)
    place = letter.partition(".")[::2]
    await dead(cell).letters.claim(*place, nonce="n", by="ann", effect_may_repeat=False)
    with pytest.raises(LetterRefused, match="being redriven by 'ann'"):
        await dead(cell).discard(letter, by="bob")
    await redriver(cell).redrive(letter, by="bob")
    with pytest.raises(LetterRefused, match="redriven by 'ann'"):
        await dead(cell).discard(letter, by="bob")
    await run.cancel()


async def test_redrive_and_discard_at_once_have_one_winner(cell: Cell) -> None:
    """Twenty rounds: a discarded letter is never called, a called one never discarded."""
    for number in range(20):
        run = await opened(cell)
        letter = await make_letter(cell, run)
        redrive = redriver(cell).redrive(letter, by="ann")
        discard = dead(cell).discard(letter, by="bob")
        first, second = (redrive, discard) if number % 2 else (discard, redrive)
        answers = await asyncio.gather(first, second, return_exceptions=True)
        fields = (await record_of(cell, letter)).fields
        await run.cancel()

        assert sum(isinstance(answer, LetterRefused) for answer in answers) == 1
        assert ("redriven_as" in fields) != ("discarded_by" in fields)
    assert await listed(cell) == []


async def test_a_letter_whose_arguments_or_run_are_gone_says_so(cell: Cell) -> None:
    """A record of another version, or one whose blob ran out; nothing was claimed."""
    bench, run = cell.bench, await opened(cell)
    letter = await make_letter(cell, run)
    call = bench.keys.call_of(letter.replace(".", "|"))
    args = (await record_of(cell, letter)).fields["args"]
    await command(bench.redis, "HDEL", call, "args")
    with pytest.raises(LetterRefused, match="cannot read"):
        await redriver(cell).redrive(letter, by="ann")
    await command(bench.redis, "HSET", call, "args_blob", "0" * 64)
    with pytest.raises(LetterRefused, match=r"arguments .* are gone"):
        await redriver(cell).redrive(letter, by="ann")
    await command(bench.redis, "HSET", call, "args", args, "caller", "from the future")
    with pytest.raises(LetterRefused, match="cannot read"):
        await redriver(cell).redrive(letter, by="ann")
    fields = (await record_of(cell, letter)).fields
    await run.complete()

    assert "redrives" not in fields


@pytest.mark.parametrize("letter", ["", "run_1.abc", "run_*.*", f"run_{'0' * 26}.a:b"])
async def test_what_is_no_id_of_a_letter_is_told(cell: Cell, letter: str) -> None:
    """Before anything is looked up."""
    with pytest.raises(LetterNotFound, match="toolrail dlq list"):
        await dead(cell).get(letter)


async def test_a_call_that_is_no_letter_is_not_redriven(cell: Cell) -> None:
    """Only what was lost for good is."""
    run = await opened(cell)
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.echo", arguments={"text": "a"}))
    for attempt in (redriver(cell).redrive, dead(cell).discard):
        with pytest.raises(LetterNotFound, match="not on the list"):
            await attempt(f"{run.id}.{ticket.call_key}", by="ann")
    await run.cancel()


@pytest.mark.parametrize("by", ["", "  ", "a\x1b[31m", "x" * 200])
async def test_somebody_has_to_do_it(cell: Cell, by: str) -> None:
    """A name that is none, or that would not fit the journal, is refused first."""
    with pytest.raises(LetterRefused, match="names nobody"):
        await redriver(cell).redrive(f"run_{'0' * 26}.{'0' * 16}", by=by)


def test_the_id_of_a_redrive_fits_whatever_the_old_one_was() -> None:
    """At most 256 bytes, cut between characters, and different for different ids."""
    long = ["é" * 128, "é" * 127 + "aa"]
    made = [redrive_id(call_id, 12) for call_id in long]

    assert redrive_id("c1", 1) == "c1.redrive.1"
    assert all(len(call_id.encode()) <= 256 and call_id.endswith(".redrive.12") for call_id in made)
    assert len(set(made)) == 2


async def test_redis_that_goes_away_leaves_the_letter(settings: Settings) -> None:
    """One error that says it is safe to try again."""
    away = settings.model_copy(
        update={"redis_url": "redis://127.0.0.1:1/0", "redis_timeout_s": 0.1}
    )
    redis = connect(away.redis_url, timeout_s=0.1, name="away")
    with pytest.raises(RedisUnavailable, match="retrying is safe"):
        await Redriver(Toolrail(away), redis, away).redrive(f"run_{'0' * 26}.{'0' * 16}", by="ann")
    await redis.aclose()
