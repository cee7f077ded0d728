"""The arguments of a call reach the policy that judges it.

Is: one fact on its way from the call to the resolver. Is not: the rest of a judgement.
Above: nothing. Below: `toolrail.judgement`.
"""

import pytest

from tests.policies import native
from toolrail.judgement import Asked, judge
from toolrail.policy.load import load_policy
from toolrail.registry import RegisteredTool
from toolrail.validation import ArgumentValidators
from toolrail_schemas import ApprovalMode, Caller, RunSpec


@pytest.mark.parametrize(
    ("line", "kind"), [("*** Add File: a", "queue"), ("*** Delete File: a", "park")]
)
def test_a_patch_that_deletes_is_parked_for_a_person(line: str, kind: str) -> None:
    """The assistant profile asks before anything destructive, and here only the arguments are."""
    arguments = {"patch": f"*** Begin Patch\n{line}\n*** End Patch"}
    tool = RegisteredTool(native("workspace.apply_patch"), "builtin", "o", True, "")
    asked = Asked("c1", tool.spec.name, {**arguments}, None, Caller.ASSISTANT, 0)
    run = RunSpec(profile="assistant", approval_mode=ApprovalMode.INTERACTIVE)

    judgement = judge(
        asked,
        tool,
        run=run,
        policy=load_policy().snapshot(profile=run.profile),
        validators=ArgumentValidators(),
    )

    assert judgement.kind == kind
