"""What a client hands in and gets back: a call, a ticket, and the run they belong to.

Is: frozen values and the checks that they can be meant. Is not: judging or storing.
Above: client, dispatcher, gateway. Below: the schemas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import JsonValue, ValidationError

from toolrail.errors import CallError, ConfigError
from toolrail.policy.snapshot import PolicySnapshot
from toolrail.settings import Settings
from toolrail_schemas import Caller, RunSpec

CALL_ID_MAX_BYTES = 256
TURN_MAX = 2**31
"""Far beyond any run, and exact for every reader of the journal."""


@dataclass(frozen=True, slots=True)
class Redrive:
    """Where a call comes from that an operator makes of a dead letter; see `redriving.py`.

    Attributes:
        letter_id: The letter, as `run_id.call_key`.
        by: Who redrove it.
        number: Of the redrive; the ledger takes the call while this one stands.
    """

    letter_id: str
    by: str
    number: int


class CallTooLarge(CallError):
    """A part of the call is larger than is kept for anybody. Make it smaller."""

    code = "call.too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """One call as a model made it.

    Attributes:
        id: The provider's id, 1 to 256 bytes.
        name: Canonical or model-facing name.
        arguments: JSON text as the provider sent it, or an object.
        turn: Which model response it came in, from 0; ids are unique per turn.
        caller: Who invokes; None takes the run's.
        provider_metadata: Opaque, stored beside the arguments, never shown to a tool.
        redrive: Which dead letter this call is made of; None for a call of a model.
    """

    id: str
    name: str
    arguments: str | bytes | Mapping[str, JsonValue] | None = None
    turn: int = 0
    caller: Caller | None = None
    provider_metadata: Mapping[str, JsonValue] | None = None
    redrive: Redrive | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a dispatched call is known by."""

    run_id: str
    call_key: str
    call_id: str
    name: str
    turn: int
    state: str
    """As the ledger took it: queued, awaiting_approval, denied, failed, or later."""

    @property
    def approval_id(self) -> str:
        """The id under which people decide about the call, when it waits for one."""
        return approval_id_of(self.run_id, self.call_key)


@dataclass(frozen=True, slots=True)
class RunContext:
    """What judging a run's calls needs; frozen with the run."""

    run_id: str
    spec: RunSpec
    policy: PolicySnapshot


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes and times the dispatcher applies; see `Settings` for the reasons."""

    inline_args_bytes: int
    inline_result_bytes: int
    call_deadline_ms: int
    approval_ms: int
    max_attempts: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return those of the settings."""
        return cls(
            inline_args_bytes=settings.inline_args_bytes,
            inline_result_bytes=settings.inline_result_bytes,
            call_deadline_ms=int(settings.call_deadline_s * 1000),
            approval_ms=int(settings.approval_expiry_s * 1000),
            max_attempts=settings.max_attempts,
        )


def approval_id_of(run_id: str, call_key: str) -> str:
    """Return the id an approval is known by; it spells the call, so that no index is needed."""
    return f"{run_id}.{call_key}"


def check_identity(request: CallRequest) -> None:
    """The request's id and turn can name a call.

    Raises:
        CallError: What is wrong with them; nothing was recorded.
    """
    try:
        size = len(request.id.encode("utf-8"))
    except UnicodeEncodeError:
        raise CallError(
            "The call id holds half of a surrogate pair. Pass the provider's id unchanged."
        ) from None
    if size > CALL_ID_MAX_BYTES or "\x00" in request.id:
        raise CallError(
            f"The call id has {size} bytes or holds a NUL; an id has 1 to {CALL_ID_MAX_BYTES} "
            "bytes and no NUL. Pass the provider's id unchanged."
        )
    # A float would be kept as text that no reader takes for a number.
    if type(request.turn) is not int or not 0 <= request.turn <= TURN_MAX:
        raise CallError(
            f"The turn is not between 0 and {TURN_MAX}. Count the model's responses in this run, "
            "from 0."
        )


def run_spec(**fields: object) -> RunSpec:
    """Return what a run is started with, from arguments of a user.

    Raises:
        ConfigError: A value is not well formed.
    """
    try:
        return RunSpec.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        told = f"{place}: {first['msg']}." if place else f"{first['msg']}."
        raise ConfigError(told, fix="Correct the argument of open_run.") from error
