"""Make a new call of a dead letter, once, however many operators ask for it at the same time.

Is: claim the redrive, find or open its run, dispatch, settle. Is not: the steps in the ledger
(`ledger/lua/letter.lua`), nor a way around policy: the dispatcher is the usual one.
Above: `toolrail dlq redrive`, scripts. Below: `dead_letters.py`, `client.py`.

The claim fixes the number of the redrive, and with the number the id of the new call; then it
fixes the run. The dispatcher takes a call of one id in one run once. So whoever finds a redrive
that was begun simply goes on with it: nobody has to wait for a lease, and a crash between any two
steps is repaired by asking again. Whoever cannot go on gives the redrive up, others who are at it
notwithstanding: the ledger takes no call of a redrive that was given up, and what was made before
it could be given up is made.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

import orjson
from redis.asyncio import Redis

from toolrail.blobs import Blobs
from toolrail.client import Toolrail
from toolrail.dead_letters import DeadLetters, LetterRefused, check_by, refusal, split_letter
from toolrail.errors import (
    AdmissionClosed,
    BlobMissing,
    CallConflict,
    Closed,
    PolicySnapshotCorrupt,
    RedisError,
    RunClosed,
    ToolrailError,
    WaitTimeout,
)
from toolrail.ledger import StoredCall
from toolrail.ledger.letters import LetterAnswer
from toolrail.request import CALL_ID_MAX_BYTES, CallRequest, Redrive, Ticket, approval_id_of
from toolrail.run import Run
from toolrail.settings import Settings
from toolrail_schemas import Caller, JsonObject, RunSpec, call_key, sha256_hex

TRIES = 5
"""Redrives in a row that a run which just ended, or a taken call id, may spoil."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """What became of a letter.

    Attributes:
        letter_id: Of the letter.
        ticket: Of the new call, in its present state.
        by: Who redrove it; not who asked now, when somebody else was first.
        is_accepted: Whether the letter is off the list. Not when policy or ledger refused the call.
        error_code: Why the new call failed or was refused; "" while it is open or when it is fine.
        was_before: Somebody had redriven the letter already; nothing was done now.
        is_new_run: The new call has a run of its own, which nobody else will end.
    """

    letter_id: str
    ticket: Ticket
    by: str
    is_accepted: bool
    error_code: str
    was_before: bool
    is_new_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Letter:
    """A letter with all that a new call of it needs."""

    letter_id: str
    call: StoredCall
    caller: Caller
    arguments: bytes
    metadata: JsonObject | None

    @property
    def place(self) -> tuple[str, str]:
        return self.call.run_id, self.call.call_key


class Redriver:
    """Redrives the dead letters of one cell."""

    def __init__(self, rail: Toolrail, redis: Redis, settings: Settings) -> None:
        """Prepare.

        Args:
            rail: An open client, which makes the new calls.
            redis: Of the ledger.
            settings: Of both.
        """
        prefix, deadline_s = settings.key_prefix, settings.redis_timeout_s
        self._rail = rail
        self._dead = DeadLetters(redis, prefix=prefix, deadline_s=deadline_s)
        self._blobs = Blobs(redis, prefix=prefix, ttl_s=settings.blob_ttl_s, deadline_s=deadline_s)

    async def redrive(
        self, letter_id: str, *, by: str, effect_may_repeat: bool = False
    ) -> Redriven:
        """A new call stands for the letter: of the same tool and arguments, asked of policy anew.

        It is made in the letter's run while that is open, else in a new run for the same tenant,
        profile, user, surface and approval mode. That is bound by the policy of the letter's run
        and by the one here and now; of two answers the stricter counts. Asking again is no change.
        A call that is refused leaves the letter on the list.

        Args:
            letter_id: Which letter.
            by: Who does this; kept in both records and in the journal.
            effect_may_repeat: Redrive even a call whose effect may have happened. In its own run
                such a call still asks for approval.

        Raises:
            LetterNotFound: It is not on the list.
            LetterRefused: Its effect may have happened, it was discarded, its arguments, its run or
                that run's policy are gone, or `by` names nobody.
            UnknownProfile, AdmissionClosed, RedisUnavailable: As named; ask again later.
        """
        check_by(by)
        letter, nonce = await self._load(letter_id), secrets.token_hex(8)
        for _ in range(TRIES):
            answer = await self._dead.letters.claim(
                *letter.place, nonce=nonce, by=by, effect_may_repeat=effect_may_repeat
            )
            if answer.status == "redriven":
                return await self._before(letter, answer)
            if answer.status not in {"claimed", "pending"}:
                raise refusal(letter_id, answer)
            done = await self._go_on(letter, answer)
            if done is not None:
                return done
        raise LetterRefused(
            f"{letter_id} could not be redriven: {TRIES} times its run ended or a call id was "
            "taken meanwhile. Try again."
        )

    async def see_through(self, done: Redriven, *, timeout_s: float) -> Redriven:
        """Return the redrive with the outcome of its call, if it comes in time.

        A run that was opened for it is completed once the call has ended; before that it stays
        open, and the reaper ends it after a day. Nobody waits for a call that a person has to
        decide about.
        """
        if done.was_before:
            return done
        ticket, code = done.ticket, done.error_code
        run = await self._rail.run(ticket.run_id)
        if ticket.state in {"queued", "running"}:
            try:
                code = (await run.wait(ticket, timeout_s=timeout_s)).error_code or ""
            except WaitTimeout:
                return done
            made = await self._dead.call(ticket.run_id, ticket.call_key)
            ticket = replace(ticket, state="" if made is None else made.state)
        if done.is_new_run and ticket.state != "awaiting_approval":
            await run.complete()
        return replace(done, ticket=ticket, error_code=code)

    async def _load(self, letter_id: str) -> _Letter:
        call = await self._dead.record(letter_id)
        fields = call.fields
        try:
            arguments = await self._bytes(fields, "args")
            metadata = await self._bytes(fields, "metadata")
        except BlobMissing:
            raise LetterRefused(
                f"The arguments of {letter_id} are gone: blobs are kept for TOOLRAIL_BLOB_TTL_S. "
                "Make the call anew where it came from, or discard the letter."
            ) from None
        record = await self._dead.run_record(call.run_id) or {}
        try:
            RunSpec.model_validate_json(record.get("spec", ""))
            caller = Caller(fields.get("caller", ""))
        except ValueError:
            raise _unreadable(letter_id) from None
        if not (arguments and fields.get("tool") and fields.get("call_id")):
            raise _unreadable(letter_id)
        return _Letter(
            letter_id=letter_id,
            call=call,
            caller=caller,
            arguments=arguments,
            metadata=orjson.loads(metadata) if metadata else None,
        )

    async def _bytes(self, fields: Mapping[str, str], name: str) -> bytes:
        inline, blob = fields.get(name, ""), fields.get(f"{name}_blob", "")
        return await self._blobs.get(blob) if blob and not inline else inline.encode()

    async def _go_on(self, letter: _Letter, answer: LetterAnswer) -> Redriven | None:
        """Finish a redrive that stands; None when it cannot be and was given up."""
        letters, number = self._dead.letters, answer.number
        try:
            run = await self._run(letter, answer)
            if run is None:
                return None
            ticket = await self._dispatch(letter, run, answer)
        except (RedisError, AdmissionClosed, Closed):
            # Whether the call was made is not known, so the redrive stands and can be gone on with.
            raise
        except ToolrailError as error:
            done = await self._given_up(letter, number, error.code)
            # A run that ended after the claim is no reason not to try again in another.
            if done is not None or isinstance(error, RunClosed):
                return done
            if isinstance(error, PolicySnapshotCorrupt):
                raise _lawless(letter.letter_id) from error
            raise
        if ticket is None:
            return await self._given_up(letter, number, CallConflict.code)
        made = await self._dead.record(approval_id_of(run.id, ticket.call_key))
        code = made.fields.get("error_code", "")
        # What no worker ever claimed was refused, and no effect can have come of it.
        accepted = not made.is_terminal or made.number("fence") > 0
        if accepted:
            new_call = approval_id_of(run.id, ticket.call_key)
            settled = await letters.accepted(*letter.place, number=number, new_call=new_call)
        else:
            settled = await letters.refused(*letter.place, number=number, code=code)
        if settled.status == "redriven":
            return await self._before(letter, settled)
        if settled.status not in {"done", "stale"}:
            raise refusal(letter.letter_id, settled)
        return Redriven(
            letter_id=letter.letter_id,
            ticket=replace(ticket, state=made.state),
            by=answer.by,
            is_accepted=accepted and settled.status == "done",
            error_code=code,
            was_before=False,
            is_new_run=run.id != letter.call.run_id,
        )

    async def _given_up(self, letter: _Letter, number: int, code: str) -> Redriven | None:
        """The letter is free for the next redrive; returned is this one if somebody made it."""
        settled = await self._dead.letters.refused(*letter.place, number=number, code=code)
        return await self._before(letter, settled) if settled.status == "redriven" else None

    async def _run(self, letter: _Letter, answer: LetterAnswer) -> Run | None:
        if answer.target:
            return await self._rail.run(answer.target)
        # Under this name, so that two operators open one run and not two.
        name = f"redrive {answer.number} of {letter.letter_id}"
        opened = await self._rail.open_again(letter.call.run_id, name=name)
        aimed = await self._dead.letters.aim(*letter.place, number=answer.number, target=opened.id)
        if aimed.status != "done":
            return None
        return opened if aimed.target == opened.id else await self._rail.run(aimed.target)

    async def _dispatch(self, letter: _Letter, run: Run, answer: LetterAnswer) -> Ticket | None:
        """Return the ticket of the new call; None when its id is taken by another call."""
        fields = letter.call.fields
        call_id = redrive_id(fields["call_id"], answer.number)
        turn = letter.call.number("turn")
        try:
            return await run.dispatch(
                CallRequest(
                    id=call_id,
                    name=fields["tool"],
                    arguments=letter.arguments,
                    turn=turn,
                    caller=letter.caller,
                    provider_metadata=letter.metadata,
                    redrive=Redrive(letter.letter_id, answer.by, answer.number),
                )
            )
        except CallConflict:
            key = call_key(run.id, turn, call_id)
            taken = await self._dead.call(run.id, key)
            if taken is None or taken.fields.get("redrive_of") != letter.letter_id:
                return None
            # Ours, dispatched before by somebody who saw other metadata or another registry.
            return Ticket(run.id, key, call_id, fields["tool"], turn, taken.state)

    async def _before(self, letter: _Letter, answer: LetterAnswer) -> Redriven:
        run_id, key = split_letter(answer.target)
        made = await self._dead.call(run_id, key)
        fields: Mapping[str, str] = {} if made is None else made.fields
        ticket = Ticket(
            run_id,
            key,
            fields.get("call_id", ""),
            letter.call.fields["tool"],
            letter.call.number("turn"),
            fields.get("state", ""),
        )
        return Redriven(
            letter_id=letter.letter_id,
            ticket=ticket,
            by=answer.by,
            is_accepted=True,
            error_code=fields.get("error_code", ""),
            was_before=True,
            is_new_run=run_id != letter.call.run_id,
        )


def _unreadable(letter_id: str) -> LetterRefused:
    return LetterRefused(
        f"The call {letter_id} or its run is gone, or of a version this one cannot read. "
        "Make the call anew where it came from, or discard the letter."
    )


def _lawless(letter_id: str) -> LetterRefused:
    return LetterRefused(
        f"The policy that the run of {letter_id} was frozen under cannot be read any more, so "
        "nobody can tell whether the call was allowed. Make the call anew where it came from, or "
        "discard the letter."
    )


def redrive_id(call_id: str, number: int) -> str:
    """Return the id of a redriven call: `<old id>.redrive.<n>`, shortened when it is too long."""
    full = f"{call_id}.redrive.{number}"
    size = len(full.encode())
    if size <= CALL_ID_MAX_BYTES:
        return full
    digest = sha256_hex(call_id.encode())[:16]
    tail = f"~{digest}.redrive.{number}"
    head = call_id.encode()[: CALL_ID_MAX_BYTES - len(tail)].decode(errors="ignore")
    return head + tail
