"""Carry a person's decisions to the ledger and say what became of each.

Is: who decides, one line per question, the exit code of all. Is not: the decision itself
(`toolrail.approvals`) or how arguments are edited (`approvals_edit.py`).
Above: `approvals.py`, `approvals_edit.py`. Below: `approvals_words.py`, `toolrail.sync`.

    0  decided, now or in the same way before      3  Redis cannot be used
    1  no such question                            4  something else had decided before
    2  refused: not by this person, not like that
"""

import getpass
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import typer

from toolrail import exit_codes
from toolrail.approvals import Decision
from toolrail.cli.approvals_ids import Finder
from toolrail.cli.approvals_words import name_words
from toolrail.cli.failures import code_of, lines_of
from toolrail.cli.options import CommandExit, UsageError
from toolrail.cli.plain import plain
from toolrail.cli.tables import print_json
from toolrail.errors import (
    RedisError,
    ToolrailError,
)
from toolrail.settings import Settings
from toolrail.spans import age_text
from toolrail.sync import Approvals, Toolrail
from toolrail_schemas import ApprovalRecord, ApprovalScope, ApprovalState

_UNKNOWN_FATE = (
    "Whether the decision was recorded is not known. Give the same command again: it is recorded "
    "once, and said a second time it changes nothing."
)
_NOTHING = "Nothing was decided."


@dataclass(frozen=True, slots=True)
class Deciding:
    """An open client, the questions it can find, and the person who decides."""

    approvals: Approvals
    finder: Finder
    by: str
    """Who that is by their own word."""
    effect_may_repeat: bool = False
    """Decide although an equal call of the run may have taken effect."""
    as_json: bool = False
    """Say what became of each question as one JSON object."""

    def named(self, record: ApprovalRecord) -> str:
        """Return a question's short id and tool, for the beginning of a line."""
        return f"{self.finder.short.of(record.approval_id)}  {name_words(record)}"


Work = Callable[[ApprovalRecord], Decision]


def _person(settings: Settings, by: str | None) -> str:
    if by is not None:
        return by
    fix = "Say who decides: --by NAME."
    if not settings.login_is_person:
        raise UsageError("the login here is nobody's own.", fix=fix, key="--by")
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise UsageError("nobody is logged in here.", fix=fix, key="--by") from None


@contextmanager
def deciding(
    settings: Settings,
    by: str | None,
    *,
    effect_may_repeat: bool = False,
    as_json: bool = False,
) -> Generator[Deciding]:
    """Give an open client; when there is none, nothing was decided, and that is said.

    Args:
        settings: Of the cell.
        by: Who decides, taken at their word; None for whoever is logged in.
        effect_may_repeat: Decide although an equal call of the run may have taken effect.
        as_json: Say what became of each question as one JSON object.

    Raises:
        UsageError: No name is given, and no login is that of a person.
        CommandExit: Redis cannot be used, which is told.
    """
    who = _person(settings, by)
    with connected(settings, otherwise=_NOTHING) as rail:
        yield Deciding(rail.approvals, Finder(rail.approvals), who, effect_may_repeat, as_json)


@contextmanager
def connected(settings: Settings, *, otherwise: str = "") -> Generator[Toolrail]:
    """Give an open client.

    Args:
        settings: Of the cell.
        otherwise: Said below the error when the cell cannot be reached.

    Raises:
        CommandExit: Redis cannot be used, which is told.
    """
    with ExitStack() as stack:
        try:
            rail = stack.enter_context(Toolrail(settings))
        except RedisError as error:
            raise CommandExit(tell("", error, otherwise)) from error
        yield rail


def decide_each(world: Deciding, given: Sequence[str], work: Work, *, note: str = "") -> int:
    """Decide one question after the other, a line for each; return the first code that is not 0.

    A Redis that is away ends it: the others would only wait for it in turn.
    """
    codes: list[int] = []
    for number, text in enumerate(given, 1):
        codes.append(decide(world, text, work, note=note))
        if codes[-1] == exit_codes.SYSTEM and number < len(given):
            _say_error(f"{len(given) - number} more were not tried. {_NOTHING}")
            break
    return next((code for code in codes if code), exit_codes.OK)


def decide(world: Deciding, text: str, work: Work, *, note: str = "") -> int:
    """Decide one question, say what became of it, and return its exit code.

    Args:
        world: With whom.
        text: The question's id, or a beginning of it.
        work: Decides.
        note: Said of a decision that is new, such as how long it holds.
    """
    shown = plain(text[:80])
    try:
        record = world.approvals.get(world.finder.find(text))
        shown = world.named(record)
    except ToolrailError as error:
        code = tell(shown, error, _NOTHING if isinstance(error, RedisError) else "")
        return _as_data(world, Fate(given=text, error_code=error.code, why=error.message), code)
    try:
        decision = work(record)
        if world.as_json:
            return _as_data(world, fate_of(text, decision), _code_of(decision))
        return report(world, record, decision, note=note)
    except ToolrailError as error:
        code = tell(shown, error, _UNKNOWN_FATE if isinstance(error, RedisError) else "")
        fate = Fate(text, record.approval_id, error_code=error.code, why=error.message)
        return _as_data(world, fate, code)


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one question, for a program; empty is what is not known or does not apply."""

    given: str
    approval_id: str = ""
    state: str = ""
    decided_by: str = ""
    call_state: str = ""
    repeated: bool = False
    error_code: str = ""
    why: str = ""


def fate_of(given: str, decision: Decision) -> Fate:
    """Return a decision as what became of its question."""
    return Fate(
        given=given,
        approval_id=decision.approval_id,
        state=decision.state.value,
        decided_by=decision.decided_by,
        call_state=decision.call_state,
        repeated=decision.repeated,
        why=decision.why,
    )


def _as_data(world: Deciding, fate: Fate, code: int) -> int:
    if world.as_json:
        print_json(fate)
    return code


def _code_of(decision: Decision) -> int:
    is_decided = decision.state in {ApprovalState.APPROVED, ApprovalState.DENIED}
    return exit_codes.OK if is_decided else exit_codes.CONFLICT


def approve(
    world: Deciding, record: ApprovalRecord, scope: ApprovalScope, arguments: str | None = None
) -> Decision:
    """The call is queued."""
    return world.approvals.approve(
        record.approval_id,
        by=world.by,
        scope=scope,
        arguments=arguments,
        effect_may_repeat=world.effect_may_repeat,
    )


def deny(world: Deciding, record: ApprovalRecord, reason: str) -> Decision:
    """The call is refused."""
    return world.approvals.deny(record.approval_id, by=world.by, comment=reason)


def report(world: Deciding, record: ApprovalRecord, decision: Decision, *, note: str = "") -> int:
    """Say what became of a decision; return the exit code."""
    head = world.named(record)
    if decision.repeated:
        ago = age_text(world.approvals.now_ms() - decision.decided_at)
        typer.echo(f"{head}  already {_did(decision)} by {plain(decision.decided_by)}, {ago} ago")
        if decision.why:
            _say_more(decision.why)
        return exit_codes.OK
    if decision.state in {ApprovalState.APPROVED, ApprovalState.DENIED}:
        whose = f"as {plain(decision.decided_by)}{note}"
        typer.echo(f"{head}  {_did(decision)} {whose}; {_next(decision)}")
        return exit_codes.OK
    _say_error(f"{head}  {decision.state.value}: the call has ended and does not run.")
    _say_more(decision.why)
    return exit_codes.CONFLICT


def tell(head: str, error: ToolrailError, more: str = "") -> int:
    """Say why a decision came to nothing, and what is known; return the exit code."""
    first, *rest = lines_of(error)
    _say_error(f"{head}  {plain(first)}" if head else plain(first))
    for line in (*rest, *([more] if more else [])):
        _say_more(line)
    return code_of(error)


def nothing(why: str, *, code: int = exit_codes.FAILED) -> CommandExit:
    """Say that nothing was decided and why; return the end of the command, to be raised."""
    _say_error(f"{why} {_NOTHING}")
    return CommandExit(code)


def confirm(question: str, *, default: bool = False) -> bool:
    """Return a person's answer to a question of yes or no.

    Raises:
        CommandExit: Ctrl-C, or the end of the input.
    """
    try:
        return typer.confirm(question, default=default)
    except typer.Abort:
        typer.echo()
        raise nothing("Interrupted.", code=exit_codes.INTERRUPTED) from None


def _did(decision: Decision) -> str:
    return typer.style(
        decision.state.value,
        fg=typer.colors.GREEN if decision.state is ApprovalState.APPROVED else typer.colors.RED,
    )


def _next(decision: Decision) -> str:
    if decision.state is ApprovalState.DENIED:
        return "the model is told"
    return f"the call is {plain(decision.call_state)}"


def _say_error(text: str) -> None:
    typer.secho(f"error: {text}", err=True, fg=typer.colors.RED)


def _say_more(text: str) -> None:
    typer.secho(f"  {plain(text)}", err=True)
