"""Snapshots: one hash everywhere, and no tampered policy.

Is: hashing, storing and reading back. Is not: what a policy decides.
Above: nothing. Below: `toolrail.policy.snapshot`.
"""

import json
import subprocess
import sys

import pytest
from pydantic import JsonValue

from tests.policies import mcp, policy
from toolrail.errors import PolicySnapshotCorrupt
from toolrail.policy.layers import PlanLayer
from toolrail.policy.load import load_policy
from toolrail.policy.snapshot import PolicySnapshot
from toolrail_schemas import sha256_hex

PROFILE: dict[str, JsonValue] = {
    "name": "coder",
    "allow": ["mcp.*", "workspace.*"],
    "tools": {"a.b": "approval", "c.d": "deny"},
    "rules": [{"id": "r", "effect": "waive", "tools": ["x.y", "a.b"]}],
    "budgets": {"mcp.*": {"timeout_ms": 1000}, "a.*": {"max_calls_per_run": 3}},
}
HASH = "cd8b2764520654e2"
"""Beginning of the hash of the profile above. It may only change with `SNAPSHOT_FORMAT`."""

PRINT_HASH = """
from toolrail.policy.load import load_policy
for name in ("assistant", "reader", "writer"):
    print(load_policy().snapshot(profile=name).policy_hash)
"""


def test_the_hash_of_a_policy_never_changes_between_versions() -> None:
    """Stored runs name it; a new field with a default must not move it."""
    assert policy(profile=PROFILE).policy_hash.startswith(HASH)


def test_the_hash_does_not_depend_on_the_order_of_keys_and_lists() -> None:
    """The same policy written differently is the same policy."""

    def turned(value: JsonValue) -> JsonValue:
        return dict(reversed(value.items())) if isinstance(value, dict) else value

    shuffled = {key: turned(value) for key, value in reversed(PROFILE.items())}
    shuffled["allow"] = ["workspace.*", "mcp.*", "mcp.*"]

    assert list(shuffled) != list(PROFILE)
    assert policy(profile=shuffled).policy_hash == policy(profile=PROFILE).policy_hash


@pytest.mark.parametrize(
    "change",
    [
        {"allow": ["mcp.*"]},
        {"allow": []},
        {"deny": ["x.y"]},
        {"on_denied": "return_result"},
        {"budget": {"timeout_ms": 1000}},
        {"name": "other"},
    ],
)
def test_what_decides_moves_the_hash(change: dict[str, JsonValue]) -> None:
    """An empty list is not an absent one, and so on."""
    assert policy(profile={**PROFILE, **change}).policy_hash != policy(profile=PROFILE).policy_hash


def test_prose_and_examples_do_not_move_the_hash() -> None:
    """They decide nothing once the file was read."""
    rule: dict[str, JsonValue] = {"id": "r", "effect": "deny", "tools": ["a.b"]}
    plain = policy(profile={"rules": [rule]})
    told = policy(profile={"description": "Why.", "rules": [{**rule, "match": ["a.b"]}]})

    assert told.policy_hash == plain.policy_hash


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_the_hash_is_the_same_in_every_process(seed: str) -> None:
    """Python's hash seed, which orders sets, has no part in it."""
    done = subprocess.run(
        [sys.executable, "-c", PRINT_HASH],
        env={"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    folder = load_policy()

    assert done.stdout.split() == [
        folder.snapshot(profile=name).policy_hash for name in ("assistant", "reader", "writer")
    ]


def test_a_stored_snapshot_reads_back_as_the_same_policy() -> None:
    """Another process gets the same hash, the same bytes and the same decisions."""
    snapshot = policy(profile=PROFILE, plan={"mode": "strict", "allow": ["mcp.gh.*"]})

    again = PolicySnapshot.loads(snapshot.dumps(), expected_hash=snapshot.policy_hash)

    assert again.dumps() == snapshot.dumps()
    assert again.policy_hash == snapshot.policy_hash
    assert again.resolve(mcp()) == snapshot.resolve(mcp())


def test_a_snapshot_under_another_plan_node_is_another_policy() -> None:
    """A plan that moves on freezes anew; moving back gives the first hash."""
    snapshot = policy(profile=PROFILE)
    planned = snapshot.with_plan(PlanLayer(name="step-1", deny=("mcp.*",)))

    assert planned.policy_hash != snapshot.policy_hash
    assert planned.with_plan(PlanLayer()).policy_hash == snapshot.policy_hash
    assert not planned.resolve(mcp()).visible


STORED = policy(profile=PROFILE).dumps()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "{}",
        STORED[:-1],
        STORED.replace('"format":1', '"format":2'),
        STORED.replace('"coder"', '"coded"'),
        STORED.replace("mcp.*", "*.***", 1),
        STORED.replace('"policy_hash":"', '"policy_hash":"0'),
        json.dumps({**json.loads(STORED), "policy_hash": None}),
        b"\xff\xfe",
    ],
)
def test_a_text_that_is_not_the_stored_policy_is_refused(text: str | bytes) -> None:
    """A run whose policy cannot be trusted ends, instead of running under another one."""
    with pytest.raises(PolicySnapshotCorrupt) as caught:
        PolicySnapshot.loads(text)

    assert caught.value.code == "policy.snapshot_corrupt"


def test_a_snapshot_of_another_hash_is_refused() -> None:
    """A valid policy under the wrong key is not the run's policy."""
    with pytest.raises(PolicySnapshotCorrupt, match="another one than was asked for"):
        PolicySnapshot.loads(STORED, expected_hash=sha256_hex(b"other"))


def test_content_of_a_newer_version_is_refused_with_its_remedy() -> None:
    """A field we would ignore might be a denial."""
    newer = policy(profile=PROFILE)
    body = json.loads(newer.dumps())["layers"]
    body["profile"]["deny_sometimes"] = ["a.b"]
    text = _signed(body)

    with pytest.raises(PolicySnapshotCorrupt, match="one version of Toolrail everywhere"):
        PolicySnapshot.loads(text)


def _signed(body: JsonValue) -> str:
    inner = json.dumps({"format": 1, "layers": body}, sort_keys=True, separators=(",", ":"))
    stored: JsonValue = {"format": 1, "layers": body, "policy_hash": sha256_hex(inner.encode())}
    return json.dumps(stored)
