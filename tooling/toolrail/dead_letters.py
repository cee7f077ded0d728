"""Look after the calls that went wrong too often for the machine: list, look into, discard.

Is: dead letters, calls that lost the worker of their last attempt and have ended for that, and what
operators did with them. Is not: making new calls of them (`redriving.py`) or deciding what becomes
a letter (`toolrail_workers.lost`). Above: `toolrail dlq`, `toolrail doctor`, scripts.
Below: `paging.py`, `call_rows.py`, `ledger/letters.py`.

A letter is already answered: its caller got the one result of the call. So nothing waits for it,
and it is never changed; a redrive is a new call that names it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from redis.asyncio import Redis

from toolrail.call_rows import PLAIN_FIELDS, CallRow, call_row, known_specs
from toolrail.errors import LedgerError
from toolrail.keys import is_run_id
from toolrail.ledger import JournalReader, LedgerReader, StoredCall
from toolrail.ledger.letters import LetterAnswer, Letters
from toolrail.paging import Pages, number
from toolrail.registry import Registry
from toolrail.request import approval_id_of
from toolrail_schemas import JournalEvent, UnknownEvent, format_timestamp

LIMIT = 50
BY_MAX_CHARS = 128
EFFECT_UNKNOWN = "tool.outcome_unknown"
_FIELDS = (
    *PLAIN_FIELDS,
    "redrives",
    "redrive_refused",
    "redriving_by",
    "redriving_ms",
    "redriven_as",
    "redriven_by",
    "redriven_ms",
    "discarded_by",
    "discarded_ms",
    "redrive_of",
    "redrive_by",
)
_EVENTS_PAGES = 20
_ENDS = frozenset({"tool_call_failed", "tool_call_completed", "tool_call_denied"})


class LetterNotFound(LedgerError):
    """There is no such dead letter. `toolrail dlq list` shows those there are."""

    code = "dead_letter.not_found"


class LetterRefused(LedgerError):
    """That cannot be done with this dead letter. `toolrail dlq show` tells how it stands."""

    code = "dead_letter.refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One dead letter, waiting or handled.

    Attributes:
        letter_id: `run_id.call_key`.
        call: The call as an operator may see it; None when its record is past its retention.
        dead_ms: When it was put on the list; 0 when it is not on it any more.
        redrives: How often somebody tried to make a new call of it.
        refused_code: Why the ledger or the policy refused the last of these; "" otherwise.
        redriving_by: Who began a redrive that is not finished; "" otherwise.
        redriven_as: The new call as `run_id.call_key`; "" while there is none.
        redriven_by: Who redrove it.
        redriven_ms: When.
        discarded_by: Who discarded it; "" otherwise.
        discarded_ms: When.
        redrive_of: The letter that this call is a redrive of; "" for a first call.
        redrive_by: Who made that redrive.
    """

    letter_id: str
    call: CallRow | None
    dead_ms: int
    redrives: int = 0
    refused_code: str = ""
    redriving_by: str = ""
    redriven_as: str = ""
    redriven_by: str = ""
    redriven_ms: int = 0
    discarded_by: str = ""
    discarded_ms: int = 0
    redrive_of: str = ""
    redrive_by: str = ""

    @property
    def effect_unknown(self) -> bool:
        """Whether its effect may have happened, so that a redrive may cause it twice."""
        return self.call is not None and self.call.error_code == EFFECT_UNKNOWN


class DeadLetters:
    """The dead letters of one cell."""

    def __init__(self, redis: Redis, *, prefix: str, deadline_s: float) -> None:
        self._pages = Pages(redis, prefix=prefix, deadline_s=deadline_s)
        self._reader = LedgerReader(redis, prefix=prefix, deadline_s=deadline_s)
        self._registry = Registry(redis, prefix=prefix, deadline_s=deadline_s)
        self._journal = JournalReader(redis, redis, prefix=prefix, deadline_s=deadline_s)
        self.letters = Letters(redis, prefix=prefix, deadline_s=deadline_s)

    async def now_ms(self) -> int:
        """Return the clock of Redis, by which ages are counted."""
        return await self._reader.now_ms()

    async def count(self) -> int:
        """Return how many letters wait for an operator."""
        return await self._pages.size(self._pages.keys.dead_letters)

    async def find(
        self, *, tool: str | None = None, tenant: str | None = None, limit: int = LIMIT
    ) -> list[DeadLetter]:
        """Return up to `limit` letters, the newest first; of arguments nothing is said here.

        A letter whose record is past its retention is found only when nothing is asked about it.

        Args:
            tool: Of this tool only.
            tenant: Of this tenant only.
            limit: Most letters to return.
        """
        found: list[DeadLetter] = []
        async for page in self._pages.newest(self._pages.keys.dead_letters):
            keys = [self._pages.keys.call_of(member) for member, _ in page]
            records = await self._pages.fields(keys, _FIELDS)
            for (member, dead_ms), fields in zip(page, records, strict=True):
                letter = _letter(*_split_member(member), fields, dead_ms=dead_ms)
                if _fits(letter.call, tool, tenant):
                    found.append(letter)
            if len(found) >= limit:
                break
        return found[:limit]

    async def ids(self) -> list[str]:
        """Return the ids of all letters that wait, the newest first."""
        found: list[str] = []
        async for page in self._pages.newest(self._pages.keys.dead_letters):
            found += [".".join(_split_member(member)) for member, _ in page]
        return found

    async def get(self, letter_id: str) -> DeadLetter:
        """Return one letter, also one that was handled, with a summary of its arguments.

        Raises:
            LetterNotFound: No such call, or it never was a dead letter.
        """
        run_id, call_key = split_letter(letter_id)
        call = await self.record(letter_id)
        member = f"{run_id}|{call_key}"
        score = await self._pages.ask("ZSCORE", self._pages.keys.dead_letters, member)
        dead_ms = int(float(str(score))) if score is not None else 0
        letter = _letter(run_id, call_key, call.fields, dead_ms=dead_ms)
        if not (dead_ms or letter.redriven_as or letter.discarded_by):
            raise LetterNotFound(
                f"The call {letter_id} is no dead letter: it is {call.state or 'unknown'}. "
                "`toolrail dlq list` shows the letters there are."
            )
        shown = call_row(run_id, call_key, call.fields, await known_specs(self._registry))
        return _letter(run_id, call_key, call.fields, dead_ms=dead_ms, shown=shown)

    async def record(self, letter_id: str) -> StoredCall:
        """Return the record of a letter's call.

        Raises:
            LetterNotFound: There is none, or it is past its retention.
        """
        call = await self._reader.call(*split_letter(letter_id))
        if call is None:
            raise _forgotten(letter_id)
        return call

    async def call(self, run_id: str, call_key: str) -> StoredCall | None:
        """Return the record of any call, or None."""
        return await self._reader.call(run_id, call_key)

    async def run_record(self, run_id: str) -> Mapping[str, str] | None:
        """Return the record of a letter's run, or None."""
        return await self._reader.run(run_id)

    async def history(self, letter_id: str) -> list[JournalEvent | UnknownEvent]:
        """Return what the journal says of the letter's call, in order.

        Looked for in the first 10,000 events of the run.
        """
        run_id, call_key = split_letter(letter_id)
        found: list[JournalEvent | UnknownEvent] = []
        after = 0
        for _ in range(_EVENTS_PAGES):
            page = await self._journal.read(run_id, after_seq=after)
            found += [event for event in page if event.payload.get("call_key") == call_key]
            if not page or (found and found[-1].type in _ENDS):
                break
            after = page[-1].seq
        return found

    async def discard(self, letter_id: str, *, by: str) -> None:
        """The letter is off the list; its record stays and says by whom.

        Discarding again is no change. A letter whose record is gone is just dropped.

        Raises:
            LetterNotFound: It is not on the list.
            LetterRefused: It was redriven, or is being redriven; or `by` names nobody.
        """
        check_by(by)
        answer = await self.letters.discard(*split_letter(letter_id), by=by)
        if answer.status not in {"done", "discarded", "no_call"}:
            raise refusal(letter_id, answer)


def split_letter(letter_id: str) -> tuple[str, str]:
    """Return run id and call key of a letter's id.

    Raises:
        LetterNotFound: It is no id of a letter.
    """
    run_id, _, call_key = letter_id.strip().partition(".")
    if not is_run_id(run_id) or not (call_key.isascii() and call_key.isalnum()):
        raise LetterNotFound(
            f"{letter_id[:80]!r} is no id of a dead letter. An id is run_…, a dot and a call key; "
            "`toolrail dlq list` shows those there are."
        )
    return run_id, call_key


def check_by(by: str) -> None:
    """The name says who it is.

    Raises:
        LetterRefused: It names nobody.
    """
    if not by.strip() or len(by) > BY_MAX_CHARS or not by.isprintable():
        raise LetterRefused(
            f"{by[:40]!r} names nobody. Say who does this in 1 to {BY_MAX_CHARS} printable "
            "characters; the name is kept in the record."
        )


def refusal(letter_id: str, answer: LetterAnswer) -> LedgerError:
    """Return the error that says why a letter cannot be handled as it was asked."""
    when = format_timestamp(answer.at_ms)
    match answer.status:
        case "effect_unknown":
            return LetterRefused(
                f"{letter_id} ended as {EFFECT_UNKNOWN}: its effect may have happened already, and "
                "a redrive could cause it twice. Look whether it happened; if a second time does "
                "no harm, say so with --effect-may-repeat."
            )
        case "redriven":
            return LetterRefused(
                f"{letter_id} was redriven by {answer.by!r} at {when} as {answer.target}. "
                "Look at that call."
            )
        case "discarded":
            return LetterRefused(
                f"{letter_id} was discarded by {answer.by!r} at {when}. "
                "Make the call anew where it came from, if it is still wanted."
            )
        case "pending":
            return LetterRefused(
                f"{letter_id} is being redriven by {answer.by!r} since {when}. Wait for that, or "
                f"finish it with `toolrail dlq redrive {letter_id}` if it was interrupted."
            )
        case "no_call":
            return _forgotten(letter_id)
        case _:
            return LetterNotFound(
                f"{letter_id} is not on the list of dead letters. "
                "`toolrail dlq list` shows those there are."
            )


def _forgotten(letter_id: str) -> LetterNotFound:
    return LetterNotFound(
        f"There is no call {letter_id} any more: it was forgotten after the retention of its run. "
        "Make the call anew where it came from, if it is still wanted."
    )


def _split_member(member: str) -> tuple[str, str]:
    run_id, _, call_key = member.partition("|")
    return run_id, call_key


def _fits(call: CallRow | None, tool: str | None, tenant: str | None) -> bool:
    if call is None:
        return tool is None and tenant is None
    return tool in {None, call.tool} and tenant in {None, call.tenant}


def _letter(
    run_id: str,
    call_key: str,
    fields: Mapping[str, str],
    *,
    dead_ms: int,
    shown: CallRow | None = None,
) -> DeadLetter:
    hidden = call_row(run_id, call_key, fields, None) if fields else None
    return DeadLetter(
        letter_id=approval_id_of(run_id, call_key),
        call=shown or hidden,
        dead_ms=dead_ms,
        redrives=number(fields, "redrives"),
        refused_code=fields.get("redrive_refused", ""),
        redriving_by=fields.get("redriving_by", ""),
        redriven_as=fields.get("redriven_as", ""),
        redriven_by=fields.get("redriven_by", ""),
        redriven_ms=number(fields, "redriven_ms"),
        discarded_by=fields.get("discarded_by", ""),
        discarded_ms=number(fields, "discarded_ms"),
        redrive_of=fields.get("redrive_of", ""),
        redrive_by=fields.get("redrive_by", ""),
    )
