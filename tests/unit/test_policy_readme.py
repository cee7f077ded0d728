"""The example of the policy README is a policy.

Is: the file that operators copy, read by the loader. Is not: prose.
Above: nothing. Below: `toolrail.policy.load`.
"""

import re
from pathlib import Path

from tests.policies import ext, flags, mcp, native, refusals, write
from tests.sources import ROOT
from toolrail.policy.layers import ProfileLayer
from toolrail.policy.load import load_policy
from toolrail_schemas import Source


def example() -> str:
    """Return the TOML block of the README."""
    text = (ROOT / "tooling/toolrail/policy/README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    return str(block)


def test_the_example_is_read_without_complaint_and_decides_as_told(tmp_path: Path) -> None:
    """Its own examples hold, and its comments are true."""
    write(tmp_path, {"profiles/coder.toml": example()})

    assert refusals(tmp_path) == []

    coder = load_policy(tmp_path).snapshot(profile="coder")
    assert flags(coder.resolve(native("workspace.write_file"))) == "TTF"
    assert flags(coder.resolve(mcp("mcp.github.get_issue"))) == "TTT"
    assert flags(coder.resolve(mcp("mcp.github.delete_repo"))) == "FFF"
    assert flags(coder.resolve(ext())) == "TTT"
    assert coder.resolve(mcp("mcp.github.force_push")).on_denied == "fail_fast"


def test_the_example_shows_everything_a_profile_can_say() -> None:
    """A new key is documented where people look first."""
    shown = set(re.findall(r"^\[*([a-z_]+)", example(), flags=re.MULTILINE))

    assert set(ProfileLayer.model_fields) - {"name"} <= shown


def test_the_lines_about_approvers_are_a_platform_layer(tmp_path: Path) -> None:
    """They say what the comments beside them say."""
    text = (ROOT / "tooling/toolrail/policy/README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"\n    (\[approvals\]\n(?:    .*\n)+)", text)
    write(tmp_path, {"profiles/coder.toml": example(), "platform.toml": block})
    rules = load_policy(tmp_path).snapshot(profile="coder").layers.platform.approvals

    assert rules.why_not("ana", run_user=None) is None
    assert rules.why_not("ben@ops.example.com", run_user=None) is None
    assert "of their own" in (rules.why_not("ana", run_user="ana") or "")
    assert rules.expires_s[Source.MCP] == 120
