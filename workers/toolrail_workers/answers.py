"""Turn how a tool ended into the one result its caller gets (semantics 7).

Is: every ending, an output, an error, a stop, a crash, as a `ToolResult` with its events. Is not:
storing it (`execute.py`) or cutting it (`output.py`).
Above: `execute.py`. Below: `output.py`, the table of error codes.
"""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue, ValidationError

from toolrail.errors import SystemFailure, ToolError
from toolrail.ledger import EventLine
from toolrail.logs import fields_of
from toolrail.notice import with_notice
from toolrail.redaction import clean_payload
from toolrail.tools import ToolOutput
from toolrail.validation import validator_for
from toolrail_schemas import (
    CALL_PAYLOADS,
    ERROR_CODES,
    RUN_TERMINAL_EVENTS,
    Block,
    ErrorClass,
    EventType,
    JsonObject,
    Level,
    SideEffect,
    Source,
    TextBlock,
    ToolResult,
    ToolSpec,
    Usage,
    check_payload,
    error_info,
)
from toolrail_workers.executor import ClaimedCall
from toolrail_workers.isolation.errors import ChildDied
from toolrail_workers.output import BLOCKS_MAX, OutputLimits, Spill, fit_output
from toolrail_workers.running import Ended, StopReason

log = logging.getLogger(__name__)

OURS = frozenset({Source.BUILTIN, Source.SKILL})
CONTAINED = frozenset({SideEffect.NONE, SideEffect.WORKSPACE, SideEffect.CONTROL})
"""Effects that are known, or can be looked up, after a tool was stopped midway."""
CODE = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
CODE_MAX_CHARS = 128
TEXT_MAX_CHARS = 2000
_STOP_CODES = frozenset({"tool.timeout", "tool.cancelled"})
_UNKNOWN = "tool.outcome_unknown"
_VALIDATORS_MAX = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a call, and what must be durable before it."""

    result: ToolResult
    spills: tuple[Spill, ...] = ()
    events: tuple[EventLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the attempt took so far."""

    queue_ms: int
    duration_ms: int
    attempts: int


class Answers:
    """Makes the answers of one worker; keeps compiled output schemas."""

    def __init__(self) -> None:
        self._validators: dict[str, Callable[[JsonValue], bool]] = {}

    def of_ended(
        self,
        call: ClaimedCall,
        spec: ToolSpec,
        ended: Ended,
        *,
        stopped: StopReason | None,
        spent: Spent,
    ) -> Answer:
        """Return the answer of a call whose tool has ended or was stopped.

        A tool that finished although it was told to stop has done its work, so its result
        stands; to report a cancel would hide an effect.
        """
        if ended.output is not None:
            try:
                return self._of_output(call, spec, ended.output, spent)
            except ToolError as error:
                events = event_lines(call, ended.output.events)
                return failed(call, error.code, spent, text=_words(error), events=events)
        if stopped is not None and not isinstance(ended.error, SystemFailure):
            unsure = ended.started and is_unsure(spec)
            return _of_stop(call, stopped, spent, unsure=unsure, started=ended.started)
        return _of_error(call, spec, ended.error, spent)

    def _of_output(
        self, call: ClaimedCall, spec: ToolSpec, output: ToolOutput, spent: Spent
    ) -> Answer:
        if not output.is_error:
            self._check_schema(spec, output.structured)
        limits = OutputLimits(
            call.max_output_tokens,
            call.max_output_bytes,
            BLOCKS_MAX - _blocks_of_ours(call, output),
        )
        fitted = fit_output(output, run_id=call.run_id, call_key=call.call_key, limits=limits)
        content, code, error_class = fitted.content, None, None
        if output.is_error:
            code, error_class = _error_of(call.source, output)
            content = _with_words(content, code)
        usage = Usage(
            queue_ms=spent.queue_ms,
            duration_ms=spent.duration_ms,
            attempts=spent.attempts,
            output_bytes=fitted.output_bytes,
            output_tokens=fitted.output_tokens,
        )
        events = event_lines(call, output.events)
        try:
            own = ToolResult(
                call_id=call.call_id,
                name=call.tool,
                content=content,
                structured=fitted.structured,
                is_error=output.is_error,
                error_code=code,
                error_class=error_class,
                resource_refs=fitted.resource_refs,
                usage=usage,
                truncated=fitted.truncated,
            )
            result = with_notice(own, call.edited)
        except ValidationError as error:
            log.warning(
                "tool.invalid_output", extra={"tool": call.tool, "errors": error.error_count()}
            )
            return failed(call, "tool.invalid_output", spent, events=events)
        return Answer(result=result, spills=fitted.spills, events=events)

    def _check_schema(self, spec: ToolSpec, structured: JsonValue) -> None:
        schema = spec.output_schema
        if schema is None:
            return
        is_valid = self._validators.get(spec.spec_hash)
        if is_valid is None:
            if len(self._validators) >= _VALIDATORS_MAX:
                self._validators.clear()
            is_valid = validator_for(schema).is_valid
            self._validators[spec.spec_hash] = is_valid
        if is_valid(structured):
            return
        first = next(iter(validator_for(schema).iter_errors(structured)), None)
        why = "" if first is None else f" First problem: {first.message[:300]}."
        raise ToolError(
            "tool.invalid_output",
            f"The tool's answer does not fit the output schema it promises.{why}",
        )


def failed(
    call: ClaimedCall,
    code: str,
    spent: Spent,
    *,
    text: str | None = None,
    error_class: ErrorClass | None = None,
    structured: JsonValue = None,
    events: tuple[EventLine, ...] = (),
) -> Answer:
    """Return a failure; words and class come from the table of codes when not given."""
    known = code if _is_code(code) else "tool.execution_failed"
    usage = Usage(queue_ms=spent.queue_ms, duration_ms=spent.duration_ms, attempts=spent.attempts)
    try:
        result = ToolResult.failure(
            call.call_id,
            call.tool,
            code=known,
            text=text,
            error_class=error_class,
            structured=structured,
            usage=usage,
        )
    except (ValidationError, ValueError):
        # What a tool said of its own failure is not fit to be said: too large, or not Unicode.
        result = ToolResult.failure(
            call.call_id, call.tool, code=known, error_class=error_class, usage=usage
        )
    return Answer(result=with_notice(result, call.edited), events=events)


def is_unsure(spec: ToolSpec) -> bool:
    """Whether nobody can tell what a stopped call of this tool has done."""
    notes = spec.annotations
    return not notes.retry_safe and notes.side_effect not in CONTAINED


def _of_stop(
    call: ClaimedCall, stopped: StopReason, spent: Spent, *, unsure: bool, started: bool
) -> Answer:
    match stopped:
        case StopReason.DEADLINE if unsure:
            text = (
                f"The tool was stopped after {call.timeout_s:g} s. It may or may not have done its "
                f"work. {error_info(_UNKNOWN).remedy}"
            )
            return failed(call, _UNKNOWN, spent, text=text)
        case StopReason.DEADLINE:
            text = (
                f"The tool did not end within {call.timeout_s:g} s and was stopped. "
                f"{error_info('tool.timeout').remedy}"
            )
            return failed(call, "tool.timeout", spent, text=text)
        case StopReason.CANCEL:
            may_have = " The tool had started, so its effect may have happened." if unsure else ""
            info = error_info("tool.cancelled")
            text = f"{info.sentence}{may_have} {info.remedy}"
            return failed(call, "tool.cancelled", spent, text=text)
        case StopReason.SHUTDOWN if not started:
            text = "The worker went away before it started the tool. Call again."
            return failed(call, "tool.worker_lost", spent, text=text)
        case StopReason.SHUTDOWN | StopReason.LOST:
            return failed(call, _UNKNOWN, spent)


def _of_error(
    call: ClaimedCall, spec: ToolSpec, error: BaseException | None, spent: Spent
) -> Answer:
    match error:
        case SystemFailure():
            return failed(
                call, error.code, spent, text=_words(error), error_class=ErrorClass.SYSTEM
            )
        case ToolError():
            return _of_tool_error(call, spec, error, spent)
        case _:
            # `error` is None when the tool cancelled itself, which is a defect like any other.
            log.error(
                "tool.crashed",
                extra={"tool": call.tool, "run_id": call.run_id, "call_key": call.call_key}
                | fields_of(error),
            )
            if call.source in OURS:
                return failed(call, "tool.internal_error", spent)
            return failed(call, "tool.execution_failed", spent)


def _of_tool_error(call: ClaimedCall, spec: ToolSpec, error: ToolError, spent: Spent) -> Answer:
    unsure = is_unsure(spec)
    if unsure and (error.code == "tool.timeout" or isinstance(error, ChildDied)):
        text = f"{error.message} It may or may not have done its work before."
        return failed(call, _UNKNOWN, spent, text=f"{text} {error_info(_UNKNOWN).remedy}")
    info = ERROR_CODES.get(error.code)
    denied = info is not None and info.error_class is ErrorClass.POLICY_DENIED
    return failed(
        call,
        error.code,
        spent,
        text=_words(error),
        # A tool says what went wrong with the call; it cannot end the run by the choice of a code.
        error_class=ErrorClass.POLICY_DENIED if denied else ErrorClass.RECOVERABLE,
        structured=cast("JsonValue", error.structured),
        events=event_lines(call, error.events),
    )


def _words(error: ToolError | SystemFailure) -> str:
    """Return what happened and what to do next, for a model."""
    said = error.message.strip() or error_info(error.code).sentence
    advice = error.next_action if isinstance(error, ToolError) else None
    if advice is None and error.code in ERROR_CODES:
        advice = error_info(error.code).remedy
    if not advice or advice in said:
        return said[:TEXT_MAX_CHARS]
    return f"{said[: TEXT_MAX_CHARS - len(advice) - 1]} {advice}"[:TEXT_MAX_CHARS]


def _error_of(source: Source, output: ToolOutput) -> tuple[str, ErrorClass]:
    usual = "tool.mcp_error" if source is Source.MCP else "tool.execution_failed"
    said = output.error_code or usual
    code = said if _is_code(said) else usual
    error_class = output.error_class or error_info(code).error_class
    if error_class is ErrorClass.SYSTEM and source not in OURS:
        # Third-party code that misbehaves must not kill the run.
        error_class = ErrorClass.RECOVERABLE
    return code, error_class


def _is_code(said: str) -> bool:
    return len(said) <= CODE_MAX_CHARS and CODE.fullmatch(said) is not None


def _blocks_of_ours(call: ClaimedCall, output: ToolOutput) -> int:
    """Return how many blocks of the result are not the tool's own; see the two that add them."""
    return int(bool(call.edited)) + int(output.is_error and not _has_words(output.content))


def _has_words(content: Sequence[Block]) -> bool:
    return any(isinstance(block, TextBlock) and block.text for block in content)


def _with_words(content: tuple[Block, ...], code: str) -> tuple[Block, ...]:
    """Return the content of an error, which always has a text that says what to do."""
    if _has_words(content):
        return content
    info = error_info(code)
    return (TextBlock(text=f"{info.sentence} {info.remedy}"), *content)


def event_lines(
    call: ClaimedCall, events: Sequence[tuple[EventType, JsonObject]]
) -> tuple[EventLine, ...]:
    """Return a tool's events as the journal takes them; one that may not enter leaves its place.

    A payload over the limits is a defect of the tool, but its effect has happened, so the event
    is never dropped (semantics 2.8). Events of calls and runs are the ledger's alone.
    """
    # The ledger adds these to whatever an event of a call says, so they count for its size.
    added: JsonObject = {
        "call_id": call.call_id,
        "call_key": call.call_key,
        "name": call.tool,
        "turn": call.turn,
    }
    lines: list[EventLine] = []
    for kind, payload in events:
        if kind in CALL_PAYLOADS or kind in RUN_TERMINAL_EVENTS:
            log.error("tool.forged_event", extra={"type": kind.value})
            continue
        try:
            # Clean first, because a mark may be longer than what it stands for.
            line = EventLine(kind, clean_payload(payload))
            check_payload(kind, {**line.payload, **added})
            line.triple()
        except (ValueError, TypeError) as error:
            why = str(error)[:300]
            log.error("tool.bad_event", extra={"type": kind.value, "reason": why})
            line = EventLine(kind, {"payload_refused": why}, Level.ERROR)
        lines.append(line)
    return tuple(lines)
