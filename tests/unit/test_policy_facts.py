"""Facts that are read off: effects of arguments, and selectors without a tool.

Is: `dynamic.py` and `unmatched.py`. Is not: what the resolver does with effects.
Above: nothing. Below: `toolrail.policy`.
"""

import pytest
from pydantic import JsonValue

from tests.policies import mcp, native, policy
from toolrail.policy.dynamic import effects_of_arguments
from toolrail.policy.selectors import Effect
from toolrail.policy.unmatched import unmatched_selectors

PATCH = native("workspace.apply_patch")
DESTRUCTIVE = frozenset({Effect.DESTRUCTIVE})
UPDATE = "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch"


@pytest.mark.parametrize(
    ("patch", "effects"),
    [
        (UPDATE, frozenset[Effect]()),
        ("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch", frozenset[Effect]()),
        ("*** Begin Patch\n*** Delete File: a\n*** End Patch", DESTRUCTIVE),
        ("*** Begin Patch\r\n*** Delete File: a\r\n*** End Patch", DESTRUCTIVE),
        ("*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch", DESTRUCTIVE),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", DESTRUCTIVE),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n", frozenset[Effect]()),
        ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n", frozenset[Effect]()),
        ("diff --git a/x b/y\nrename from x\nrename to y\n", DESTRUCTIVE),
        ("diff --git a/x b/x\ndeleted file mode 100644\n", DESTRUCTIVE),
        (f"{UPDATE}\n *** Delete File: a", frozenset[Effect]()),
        (None, frozenset[Effect]()),
        (["*** Delete File: a"], frozenset[Effect]()),
    ],
)
def test_a_patch_that_removes_a_path_is_destructive(
    patch: JsonValue, effects: frozenset[Effect]
) -> None:
    """Delete and move, in either format; a context line that only quotes a marker is none."""
    assert effects_of_arguments(PATCH, {"patch": patch}) == effects


def test_only_our_own_patch_tool_is_read_like_this() -> None:
    """A server's tool cannot borrow the name, and its arguments mean what it likes."""
    deleting: dict[str, JsonValue] = {"patch": "*** Delete File: a"}

    assert effects_of_arguments(mcp("mcp.s.apply_patch"), deleting) == frozenset()
    assert effects_of_arguments(native("notes.patch"), deleting) == frozenset()


def test_selectors_without_a_tool_are_listed_with_a_hint() -> None:
    """Where it stands, and what it may have meant."""
    snapshot = policy(
        platform={"allow_only": ["chat.*", "workspace.aply_patch"]},
        profile={
            "name": "coder",
            "allow": ["server:github", "server:githb", "tag:repos"],
            "rules": [
                {"id": "r", "effect": "deny", "tools": ["extension:dice", "effect:external"]}
            ],
            "budgets": {"tag:repo": {"max_calls_per_run": 1}, "x.y": {"max_calls_per_run": 1}},
        },
    )
    layers = (snapshot.layers.platform, snapshot.layers.profile)
    found = unmatched_selectors(layers, [PATCH, mcp("mcp.github.x", tags=("repo",))])

    assert [str(unmatched) for unmatched in found] == [
        "platform: allow_only: 'chat.*' matches no tool.",
        "platform: allow_only: 'workspace.aply_patch' matches no tool. "
        "Did you mean 'workspace.apply_patch'?",
        "profile coder: r: 'extension:dice' matches no tool.",
        "profile coder: allow[server:githb]: 'server:githb' matches no tool. "
        "Did you mean 'github'?",
        "profile coder: allow[tag:repos]: 'tag:repos' matches no tool. Did you mean 'repo'?",
        "profile coder: budgets: 'x.y' matches no tool.",
    ]


def test_a_tag_that_only_untrusted_tools_carry_is_told_where_it_would_widen() -> None:
    """The rule looks right and can never count."""
    allow = policy(profile={"allow": ["tag:repo"]}).layers.profile
    deny = policy(profile={"deny": ["tag:repo"]}).layers.profile
    tools = [mcp(tags=("repo",))]

    (told,) = unmatched_selectors([allow, deny], tools)

    assert str(told) == (
        "profile: allow[tag:repo]: 'tag:repo' matches no tool. "
        "Only tools whose metadata is not trusted carry it, and these words never widen."
    )
