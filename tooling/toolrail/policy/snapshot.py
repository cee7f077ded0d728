"""The policy of one run, frozen, hashed, and readable by any process.

Is: the layers with their hash, the JSON that is stored at `policy:{hash}`, and the handle the
dispatcher resolves with. Is not: the storing (`toolrail.ledger`) or the reading of files
(`load.py`).
Above: dispatcher, gateway, `load.py`. Below: `layers.py`, `verdicts.py`, `resolve.py`.

The hash is over what decides, in canonical JSON without defaults. So it does not depend on the
process, on the order of keys and lists, on prose, or on fields that later versions add.
"""

import json
from functools import cached_property
from typing import Final, Self

from pydantic import JsonValue, ValidationError
from pydantic.main import IncEx

from toolrail.errors import PolicySnapshotCorrupt
from toolrail.policy.inputs import CORE_SURFACE, Facts, PolicyInput
from toolrail.policy.layers import Layers, PlanLayer
from toolrail.policy.resolve import resolve
from toolrail.policy.verdicts import CompiledLayers
from toolrail_schemas import Caller, PolicyDecision, ToolSpec, canonical_json, sha256_hex

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
    ) -> None:
        """Freeze the layers.

        Args:
            layers: What the policy says.
            compiled: The same layers compiled before; for `with_plan`.
            stated_hash: Their hash as it was stored and checked; for `loads`.
        """
        self.layers: Final = layers
        self.compiled: Final = CompiledLayers.of(layers) if compiled is None else compiled
        self._stated_hash = stated_hash

    @cached_property
    def policy_hash(self) -> str:
        """SHA-256 of what the layers say, 64 lower-case hex digits."""
        return self._stated_hash or _hash(_body(self.layers))

    def resolve(
        self,
        spec: ToolSpec,
        *,
        caller: Caller = Caller.ASSISTANT,
        surface: str = CORE_SURFACE,
        facts: Facts | None = None,
    ) -> PolicyDecision:
        """Return what the caller may do with the tool under this policy."""
        return resolve(self.ask(spec, caller=caller, surface=surface, facts=facts))

    def ask(
        self,
        spec: ToolSpec,
        *,
        caller: Caller = Caller.ASSISTANT,
        surface: str = CORE_SURFACE,
        facts: Facts | None = None,
    ) -> PolicyInput:
        """Return the question that `resolve` and `explain` answer."""
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
        return PolicySnapshot(layers, compiled=self.compiled.with_plan(plan))

    def dumps(self) -> str:
        """Return the snapshot as the JSON text that `loads` reads."""
        stored: dict[str, JsonValue] = {
            "format": SNAPSHOT_FORMAT,
            "policy_hash": self.policy_hash,
            "layers": _body(self.layers),
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
        body, stated = _parse(text)
        if stated != _hash(body):
            raise PolicySnapshotCorrupt(
                "The stored policy does not have the hash it states. Start a new run."
            )
        if expected_hash is not None and stated != expected_hash:
            raise PolicySnapshotCorrupt(
                "The stored policy is another one than was asked for. Start a new run."
            )
        try:
            return cls(Layers.model_validate(body), stated_hash=stated)
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


def _hash(body: JsonValue) -> str:
    return sha256_hex(canonical_json({"format": SNAPSHOT_FORMAT, "layers": body}))


def _parse(text: str | bytes) -> tuple[JsonValue, str]:
    try:
        stored: JsonValue = json.loads(text)
    except ValueError as error:
        raise PolicySnapshotCorrupt from error
    if not isinstance(stored, dict) or stored.get("format") != SNAPSHOT_FORMAT:
        raise PolicySnapshotCorrupt
    stated = stored.get("policy_hash")
    if not isinstance(stated, str):
        raise PolicySnapshotCorrupt
    return stored.get("layers"), stated
