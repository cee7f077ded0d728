"""Policy folders: what is read, and the text of every refusal.

Is: one test row for each mistake an operator can make, with file, line, key and fix. Is not: what
the policy then decides. Above: nothing. Below: `toolrail.policy.load`.
"""

import re
from pathlib import Path

import pytest

from tests.policies import flags, mcp, native, refusals, write
from toolrail.errors import ConfigError, UnknownProfile
from toolrail.policy.load import default_folder, load_policy

GOOD = {
    "platform.toml": 'deny = ["server:evil"]\n',
    "source.toml": 'allow = ["workspace.read_file"]\n',
    "profiles/coder.toml": 'allow = ["workspace.*"]\n',
    "users/ana@example.com.toml": 'waive = ["workspace.*"]\n',
}


def test_a_folder_gives_the_layers_of_its_files(tmp_path: Path) -> None:
    """Each file is a layer; profiles and users are called by their file's name."""
    folder = load_policy(write(tmp_path, GOOD))

    snapshot = folder.snapshot(profile="coder", user="ana@example.com")

    assert snapshot.layers.profile.name == "coder"
    assert snapshot.layers.user.waive == ("workspace.*",)
    assert snapshot.layers.platform.deny == ("server:evil",)
    assert snapshot.layers.source.allow == ("workspace.read_file",)


def test_every_file_is_optional(tmp_path: Path) -> None:
    """A folder with one profile is a policy; what nobody says is unset."""
    folder = load_policy(write(tmp_path, {"profiles/a.toml": ""}))

    assert flags(folder.snapshot(profile="a").resolve(native("notes.add"))) == "FFF"


@pytest.mark.parametrize("name", ["users/bob.yaml", "users/bob.TOML", "profiles/x.toml/y.toml"])
def test_a_misnamed_file_of_a_layer_is_refused(tmp_path: Path, name: str) -> None:
    """What is not read would deny nothing, and nobody would know."""
    with pytest.raises(ConfigError, match="is not a policy file"):
        load_policy(write(tmp_path, {**GOOD, name: 'deny = ["workspace.*"]\n'}))


def test_a_note_beside_the_layers_is_no_layer(tmp_path: Path) -> None:
    """People explain their profiles in a README."""
    folder = load_policy(write(tmp_path, {**GOOD, "profiles/README.md": "why"}))

    assert list(folder.profiles) == ["coder"]


def test_a_user_without_a_file_has_no_settings(tmp_path: Path) -> None:
    """And the name cannot lead out of the folder, since it is only looked up."""
    folder = load_policy(write(tmp_path, GOOD))

    stranger = folder.snapshot(profile="coder", user="../platform")

    assert stranger.policy_hash == folder.snapshot(profile="coder").policy_hash


def test_runs_of_one_profile_share_what_was_computed(tmp_path: Path) -> None:
    """The snapshot is kept, so the second run starts warm."""
    folder = load_policy(write(tmp_path, GOOD))

    assert folder.snapshot(profile="coder") is folder.snapshot(profile="coder")


def test_an_unknown_profile_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    """A run never falls back to another profile."""
    folder = load_policy(write(tmp_path, GOOD))

    with pytest.raises(UnknownProfile) as caught:
        folder.snapshot(profile="coders")

    assert str(caught.value) == f"there is no profile 'coders' in {tmp_path}. Did you mean 'coder'?"


def test_hidden_files_and_notes_are_left_alone(tmp_path: Path) -> None:
    """Container platforms mount `..data` links, and people keep a README."""
    files = {**GOOD, "README.md": "", ".git/config.toml": "", "..data/platform.toml": "nonsense"}

    assert refusals(write(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (
            "platform.toml",
            'deny = ["server:evil"]\ndenny = ["a.b"]\n',
            "platform.toml:2: denny: unknown key. Did you mean 'deny'?",
        ),
        (
            "platform.toml",
            '\nallow = ["a.b"]\n',
            "platform.toml:2: allow: the platform layer has no allow. Cap with allow_only, "
            "and allow in source.toml, a profile or a user file.",
        ),
        (
            "platform.toml",
            'waive = ["a.b"]\n',
            "platform.toml:1: waive: the platform layer has no waive. Waive in "
            "users/<user>.toml or, for builtin and skill tools only, in a profile.",
        ),
        (
            "platform.toml",
            '[tools]\n"a.c" = "deny"\n"a.b" = "allow"\n',
            'platform.toml:3: tools."a.b": the platform layer may not allow. Cap with '
            "allow_only, and allow in source.toml, a profile or a user file.",
        ),
        (
            "platform.toml",
            '[tools]\n"a.b" = "approval"\n',
            'platform.toml:2: tools."a.b": the platform layer may not allow, which approval '
            "includes. Write require_approval, which asks a person and grants nothing.",
        ),
        (
            "platform.toml",
            '[[rules]]\nid = "x"\neffect = "waive"\ntools = ["a.b"]\n',
            "platform.toml:4: rules[x].tools: the platform layer may not waive approvals. Waive in "
            "users/<user>.toml or, for builtin and skill tools only, in a profile.",
        ),
        (
            "source.toml",
            'allow_only = ["a.b"]\n',
            "source.toml:1: allow_only: the source layer has no allow_only. "
            "Only platform.toml caps with allow_only; use deny here.",
        ),
        (
            "source.toml",
            '[tools]\n"a.b" = "waive"\n',
            'source.toml:2: tools."a.b": the source layer may not waive approvals. Waive in '
            "users/<user>.toml or, for builtin and skill tools only, in a profile.",
        ),
        (
            "profiles/p.toml",
            'allow = [\n    "a.b",\n    "*",\n]\n',
            "profiles/p.toml:3: allow: '*' grants every tool at once, which a profile may not. "
            'Name groups or sources, such as "workspace.*" or "source:builtin".',
        ),
        (
            "profiles/p.toml",
            '[tools]\n"*.*" = "approval"\n',
            "profiles/p.toml:2: tools.\"*.*\": '*.*' grants every tool at once, which a profile "
            'may not. Name groups or sources, such as "workspace.*" or "source:builtin".',
        ),
        (
            "profiles/p.toml",
            "allow_only = []\n",
            "profiles/p.toml:1: allow_only: the profile layer has no allow_only. "
            "Only platform.toml caps with allow_only; use deny here.",
        ),
        (
            "profiles/p.toml",
            'deny = [\n  "a.b",\n  "efect:destructive",\n]\n',
            "profiles/p.toml:3: deny: 'efect:destructive' has an unknown prefix 'efect'. "
            "Did you mean 'effect'?",
        ),
        (
            "profiles/p.toml",
            '[tools]\n"a.b" = "alow"\n',
            "profiles/p.toml:2: tools.\"a.b\": unknown value 'alow'. Did you mean 'allow'?",
        ),
        (
            "profiles/p.toml",
            "[tools]\n'mcp.gh' = \"allow\"\n",
            "profiles/p.toml:2: tools.\"mcp.gh\": 'mcp.gh' is a name no tool can have, since they "
            "are mcp.<server>.<tool>. Write mcp.gh.* for every tool of the server.",
        ),
        (
            "profiles/p.toml",
            'on_denied = "fail"\n',
            "profiles/p.toml:1: on_denied: unknown value 'fail'. Did you mean 'fail_fast'?",
        ),
        (
            "profiles/p.toml",
            'allow = "a.b"\n',
            "profiles/p.toml:1: allow: must be a list. Put it in square brackets.",
        ),
        (
            "profiles/p.toml",
            'name = "p"\n',
            "profiles/p.toml:1: name: unknown key. The name is the file's name.",
        ),
        (
            "profiles/p.toml",
            "tools = 5\n",
            "profiles/p.toml:1: tools: must be a table.",
        ),
        (
            "users/u.toml",
            '[budgets."mcp.*"]\nmax_calls_per_turn = 0\n',
            'users/u.toml:2: budgets."mcp.*".max_calls_per_turn: '
            "must be greater than or equal to 1, not 0.",
        ),
        (
            "users/u.toml",
            '[budgets."mcp.*"]\ntimeout = 5\n',
            "users/u.toml:2: budgets.\"mcp.*\".timeout: unknown key. Did you mean 'timeout_ms'?",
        ),
        (
            "users/u.toml",
            "[budget]\ntimeout_ms = 2.5\n",
            "users/u.toml:2: budget.timeout_ms: must be a whole number.",
        ),
        (
            "users/u.toml",
            "budget.max_concurrency = 2\n",
            "users/u.toml:1: budget.max_concurrency: a policy cannot set it; workers take "
            "concurrency from the tool's own budget. Set it where the tool or server is declared.",
        ),
        (
            "users/u.toml",
            '[[rules]]\nid = "a"\neffect = "deny"\ntools = ["a.b"]\n'
            '[[rules]]\nid = "a"\neffect = "deny"\ntools = ["a.c"]\n',
            "users/u.toml:6: rules[a].id: 'a' is the id of an earlier rule too. "
            "Give each rule of a layer its own id.",
        ),
        (
            "users/u.toml",
            '[[rules]]\nid = "a"\ntools = ["a.b"]\n',
            "users/u.toml:1: rules[a].effect: is missing. Add it.",
        ),
        (
            "users/u.toml",
            '[[rules]]\nid = "a"\neffect = "deny"\ntool = ["a.b"]\ntools = ["a.b"]\n',
            "users/u.toml:4: rules[a].tool: unknown key. Did you mean 'tools'?",
        ),
        (
            "users/u.toml",
            '[[rules]]\nid = "a"\neffect = "allow"\ntools = ["a.b"]\non_denied = "fail_fast"\n',
            "users/u.toml:5: rules[a].on_denied: does nothing, since the rule's effect is allow. "
            "Remove on_denied.",
        ),
        (
            "users/u.toml",
            '[[rules]]\nid = "A rule"\neffect = "deny"\ntools = ["a.b"]\n',
            "users/u.toml:2: rules[A rule].id: must match pattern "
            "'^[a-z0-9][a-z0-9_.-]{0,63}$', not 'A rule'.",
        ),
        (
            "users/u.toml",
            "deny = [\n",
            "users/u.toml:1: is not TOML: Invalid value. "
            "Correct the syntax of this line, or of the one before it.",
        ),
        (
            "users/u.toml",
            'deny = ["a.b"]\ndeny = ["a.c"]\n',
            "users/u.toml:2: is not TOML: Cannot overwrite a value. "
            "Correct the syntax of this line, or of the one before it.",
        ),
        (
            "users/a b.toml",
            "",
            "users/a b.toml: 'a b' cannot be the name of a layer. "
            "Use letters, digits and _ . @ - in the name of the file.",
        ),
        (
            "plaftorm.toml",
            "",
            "plaftorm.toml: is not a part of a policy folder. Did you mean 'platform.toml'?",
        ),
        (
            "profile/p.toml",
            "",
            "profile: is not a part of a policy folder. Did you mean 'profiles/'?",
        ),
    ],
)
def test_a_mistake_is_refused_with_file_line_key_and_fix(
    tmp_path: Path, file: str, text: str, message: str
) -> None:
    """Nothing that was not understood is skipped."""
    assert refusals(write(tmp_path, {file: text})) == [message]


def test_all_problems_of_a_folder_are_told_at_once(tmp_path: Path) -> None:
    """`inspect_policy` goes on after a problem; `load_policy` raises the first and counts."""
    files = {**GOOD, "platform.toml": "denny = []\nalow = []\n", "users/u.toml": "x = 1\n"}

    assert len(refusals(write(tmp_path, files))) == 3
    with pytest.raises(
        ConfigError, match=re.escape("(2 more; `toolrail policy check` lists all.)")
    ):
        load_policy(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """A wrong path must not mean an empty policy, nor the built-in one."""
    (refusal,) = refusals(tmp_path / "nowhere")

    assert "there is no such folder. Set TOOLRAIL_POLICY_DIR" in refusal


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """The text cannot be compared with names if it was guessed."""
    (tmp_path / "platform.toml").write_bytes(b'deny = ["caf\xe9"]\n')

    assert refusals(tmp_path) == ["platform.toml: is not UTF-8. Save it as UTF-8."]


def test_the_built_in_policy_asks_before_anything_foreign() -> None:
    """Out of the box an assistant may use installed tools, and others after approval."""
    folder = load_policy()
    plain, foreign = native("notes.add"), mcp()

    def answers(profile: str) -> tuple[str, str]:
        snapshot = folder.snapshot(profile=profile)
        return flags(snapshot.resolve(plain)), flags(snapshot.resolve(foreign))

    assert sorted(folder.profiles) == ["assistant", "reader", "writer"]
    assert answers("assistant") == ("TTF", "TTT")
    assert answers("reader") == answers("writer") == ("FFF", "FFF")


def test_the_built_in_files_are_package_data() -> None:
    """They are found beside the code, wherever it was installed."""
    names = {entry.name for entry in default_folder().iterdir()}

    assert {"platform.toml", "source.toml", "profiles"} <= names
