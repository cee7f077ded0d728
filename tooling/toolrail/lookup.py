"""Find a run again by its id, with the policy it was frozen under.

Is: run record and stored policy to `RunContext`, the compiled policies kept. Is not: opening runs
(`client.py`). Above: client, approvals, operators' commands. Below: the ledger's reader, policy.
"""

from toolrail.errors import RunNotFound
from toolrail.keys import is_run_id
from toolrail.ledger import LedgerReader
from toolrail.policy.snapshot import PolicySnapshot
from toolrail.request import RunContext
from toolrail_schemas import RunSpec

SNAPSHOTS_MAX = 64
"""Policies of found runs that stay compiled; a first decision in a cold one costs 20 warm ones."""


class RunLookup:
    """The runs of one cell."""

    def __init__(self, reader: LedgerReader) -> None:
        self._reader = reader
        self._snapshots: dict[str, PolicySnapshot] = {}

    async def context(self, run_id: str) -> RunContext:
        """Return what judging calls of this run needs.

        Raises:
            RunNotFound: No such run, or not a run id at all.
            PolicySnapshotCorrupt: Its policy is not what was stored.
        """
        text = await self._reader.run_spec(run_id) if is_run_id(run_id) else None
        if text is None:
            raise RunNotFound(
                f"There is no run {run_id[:80]!r}. A run id is run_ and 26 letters and digits; "
                "a run is forgotten after its retention."
            )
        spec = RunSpec.model_validate_json(text)
        return RunContext(run_id, spec, await self._policy(spec.policy_hash or ""))

    async def _policy(self, policy_hash: str) -> PolicySnapshot:
        known = self._snapshots.get(policy_hash)
        if known is None:
            text = await self._reader.policy(policy_hash)
            known = PolicySnapshot.loads(text or "", expected_hash=policy_hash)
            if len(self._snapshots) >= SNAPSHOTS_MAX:
                self._snapshots.clear()
            self._snapshots[policy_hash] = known
        return known
