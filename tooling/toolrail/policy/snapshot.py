"""The policy of one run, frozen, hashed, and readable by any process.

Is: the layers with their hash, the JSON that is stored at `policy:{hash}`, and the handle the
dispatcher resolves with; also of a run that two policies bind. Is not: the storing
(`toolrail.ledger`) or the reading of files (`load.py`).
Above: dispatcher, gateway, `load.py`. Below: `layers.py`, `verdicts.py`, `resolve.py`,
`stricter.py`.

The hash is over what decides, in canonical JSON without defaults. So it does not depend on the
process, on the order of keys and lists, on prose, or on fields that later versions add.
"""

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Final, Self

from pydantic import JsonValue, ValidationError
from pydantic.main import IncEx

from toolrail.errors import PolicySnapshotCorrupt
from toolrail.policy.inputs import CORE_SURFACE, Facts, PolicyInput
from toolrail.policy.layers import Layers, PlanLayer
from toolrail.policy.resolve import resolve
from toolrail.policy.stricter import stricter
from toolrail.policy.verdicts import CompiledLayers
from toolrail_schemas import (
    Caller,
    PolicyDecision,
    Source,
    ToolSpec,
    canonical_json,
    sha256_hex,
)

SNAPSHOT_FORMAT: Final = 1

_EXAMPLES: Final[IncEx] = {"match", "not_match"}
_EACH_RULE: Final[IncEx] = {"__all__": _EXAMPLES}
_PROSE: Final[IncEx] = {"description": True, "rules": _EACH_RULE}
"""What has done its work when the files were read, and decides nothing."""


class PolicySnapshot:
    """The frozen policy of one run. Equal policies have equal hashes."""

    def __init__(
        self,
        layers: Layers,
        *,
        compiled: CompiledLayers | None = None,
        stated_hash: str | None = None,
        also: Iterable["PolicySnapshot"] = (),
    ) -> None:
        """Freeze the layers.

        Args:
            layers: What the policy says.
            compiled: The same layers compiled before; for `with_plan`.
            stated_hash: The hash of all as it was stored and checked; for `loads`.
            also: Policies that must agree, none of which has others of its own.
        """
        self.layers: Final = layers
        self.compiled: Final = CompiledLayers.of(layers) if compiled is None else compiled
        self.also: Final = tuple(also)
        self._stated_hash = stated_hash

    @cached_property
    def policy_hash(self) -> str:
        """SHA-256 of what the layers say, 64 lower-case hex digits."""
        return self._stated_hash or _hash(_body(self.layers), self._others)

    @property
    def _others(self) -> list[JsonValue]:
        """What the policies that must agree say, in the order of their hashes."""
        return [_body(other.layers) for other in sorted(self.also, key=lambda one: one.policy_hash)]

    def resolve(
        self,
        spec: ToolSpec,
        *,
        caller: Caller = Caller.ASSISTANT,
        surface: str = CORE_SURFACE,
        facts: Facts | None = None,
    ) -> PolicyDecision:
        """Return what the caller may do with the tool under this policy, and under all others."""
        decision = resolve(self.ask(spec, caller=caller, surface=surface, facts=facts))
        for other in self.also:
            earlier = other.resolve(spec, caller=caller, surface=surface, facts=facts)
            decision = stricter(decision, earlier)
        return decision

    def ask(
        self,
        spec: ToolSpec,
        *,
        caller: Caller = Caller.ASSISTANT,
        surface: str = CORE_SURFACE,
        facts: Facts | None = None,
    ) -> PolicyInput:
        """Return the question that `resolve` and `explain` answer, to this policy alone."""
        return PolicyInput(
            spec=spec,
            layers=self.compiled,
            caller=caller,
            surface=surface,
            facts=Facts() if facts is None else facts,
        )

    def with_plan(self, plan: PlanLayer) -> "PolicySnapshot":
        """Return this policy under another plan node; what was computed for the rest is kept."""
        layers = self.layers.model_copy(update={"plan": plan})
        return PolicySnapshot(layers, compiled=self.compiled.with_plan(plan), also=self.also)

    def bound_by(self, earlier: "PolicySnapshot") -> "PolicySnapshot":
        """Return this policy, allowing only what the earlier one allows too.

        Whatever binds one of them binds the new one, so that a chain of runs never gets laxer.
        """
        own = PolicySnapshot(self.layers, compiled=self.compiled)
        parts = (*self.also, PolicySnapshot(earlier.layers, compiled=earlier.compiled))
        others = {part.policy_hash: part for part in (*parts, *earlier.also)}
        others.pop(own.policy_hash, None)
        return PolicySnapshot(self.layers, compiled=self.compiled, also=others.values())

    def why_not_decider(self, by: str, *, run_user: str | None) -> str | None:
        """Return why this person may not decide about parked calls; None when they may.

        Args:
            by: Who decides.
            run_user: Whose run it is, when somebody's.
        """
        for policy in (self, *self.also):
            why = policy.layers.platform.approvals.why_not(by, run_user=run_user)
            if why is not None:
                return why
        return None

    def approval_expiry_s(self, source: Source) -> int | None:
        """Return how long a question about a tool of this source stands; None: as usual."""
        found = (
            policy.layers.platform.approvals.expires_s.get(source) for policy in (self, *self.also)
        )
        return min((seconds for seconds in found if seconds is not None), default=None)

    def dumps(self) -> str:
        """Return the snapshot as the JSON text that `loads` reads."""
        stored: dict[str, JsonValue] = {
            "format": SNAPSHOT_FORMAT,
            "policy_hash": self.policy_hash,
            "layers": _body(self.layers),
            **_also(self._others),
        }
        return canonical_json(stored).decode("utf-8")

    @classmethod
    def loads(cls, text: str | bytes, *, expected_hash: str | None = None) -> Self:
        """Return the snapshot that was stored.

        Args:
            text: What `dumps` returned, from this or another process.
            expected_hash: The hash the text was asked for by; None accepts the one it states.

        Raises:
            PolicySnapshotCorrupt: The text is not a snapshot, or not the one of this hash.
        """
        body, others, stated = _parse(text)
        if stated != _hash(body, others):
            raise PolicySnapshotCorrupt(
                "The stored policy does not have the hash it states. Start a new run."
            )
        if expected_hash is not None and stated != expected_hash:
            raise PolicySnapshotCorrupt(
                "The stored policy is another one than was asked for. Start a new run."
            )
        try:
            also = [PolicySnapshot(Layers.model_validate(other)) for other in others]
            return cls(Layers.model_validate(body), stated_hash=stated, also=also)
        except ValidationError as error:
            raise PolicySnapshotCorrupt(
                "The stored policy has content this version does not know. "
                "Run one version of Toolrail everywhere, or start a new run."
            ) from error


def _body(layers: Layers) -> JsonValue:
    """Return what decides, as JSON."""
    body: JsonValue = layers.model_dump(
        mode="json", exclude_defaults=True, exclude=dict.fromkeys(Layers.model_fields, _PROSE)
    )
    return body


def _also(others: list[JsonValue]) -> dict[str, JsonValue]:
    return {"also": others} if others else {}


def _hash(body: JsonValue, others: list[JsonValue]) -> str:
    return sha256_hex(canonical_json({"format": SNAPSHOT_FORMAT, "layers": body, **_also(others)}))


def _parse(text: str | bytes) -> tuple[JsonValue, list[JsonValue], str]:
    try:
        stored: JsonValue = json.loads(text)
    except ValueError as error:
        raise PolicySnapshotCorrupt from error
    if not isinstance(stored, dict) or stored.get("format") != SNAPSHOT_FORMAT:
        raise PolicySnapshotCorrupt
    stated, others = stored.get("policy_hash"), stored.get("also", [])
    if not isinstance(stated, str) or not isinstance(others, list):
        raise PolicySnapshotCorrupt
    return stored.get("layers"), others, stated
