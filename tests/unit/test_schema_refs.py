"""A resource ref says where something is, in one spelling.

Is: the grammar of semantics 1.5, both directions. Is not: resolving one. Above: nothing.
Below: `toolrail_schemas.refs`.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrail_schemas import (
    args_ref,
    artifact_ref,
    check_ref,
    mcp_ref,
    parse_ref,
    result_ref,
    workspace_path,
    workspace_ref,
)

RUN = "run_01JDXAMP0E0000000000000000"
KEY = "0123456789abcdef"


@pytest.mark.parametrize(
    "ref",
    [
        "workspace:output/report.md",
        "workspace:output/report.md@0123456789ab",
        "workspace:output/report.md#L1-L20",
        "workspace:output/a b ü.md@0123456789ab#L3-L3",
        f"artifact:{RUN}/picture.png",
        "chat:current#12",
        "chat:current#12:chars=0..100",
        "skill:writing/SKILL.md",
        "skill:writing/sub/notes.md#Style guide",
        "worldinfo:dragons",
        "mcp:gh/repo%3A%2F%2Fx",
        f"result:{KEY}",
        f"args:{KEY}",
    ],
)
def test_every_kind_of_ref_is_read(ref: str) -> None:
    """The eight schemes with their optional parts."""
    assert check_ref(ref) == ref
    assert parse_ref(ref).scheme == ref.partition(":")[0]


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "workspace:",
        "workspace:a@0123456789AB",
        "workspace:a@0123",
        "workspace:a#L0-L1",
        "workspace:a#L5-L4",
        "workspace:a#L1",
        "workspace:a\x00b",
        "workspace:a\nb",
        f"artifact:{RUN}",
        f"artifact:{RUN}/../x",
        "artifact:run_x/y",
        "chat:other#1",
        "chat:current#1:chars=9..3",
        "skill:writing",
        "worldinfo:a/b",
        "mcp:gh/https://x",
        "mcp:gh.x/y",
        "result:0123",
        f"result:{KEY.upper()}",
        f"result:{KEY}\n",
        "file:///etc/passwd",
        "https://example.com",
        "workspace:" + "x" * 2048,
    ],
)
def test_anything_else_is_no_ref(ref: str) -> None:
    """Above all no URL and no path of the host."""
    with pytest.raises(ValueError, match=r"ref|range"):
        check_ref(ref)


def test_the_parts_of_a_ref_are_told_apart() -> None:
    """Version, lines, characters and section."""
    file = parse_ref("workspace:a.md@0123456789ab#L3-L7")
    chat = parse_ref("chat:current#12:chars=5..9")
    skill = parse_ref("skill:writing/SKILL.md#Style")

    assert (file.target, file.version, file.lines) == ("a.md", "0123456789ab", (3, 7))
    assert (chat.target, chat.chars) == ("current#12", (5, 9))
    assert (skill.target, skill.section) == ("writing/SKILL.md", "Style")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60))
def test_a_workspace_path_comes_back_as_it_was(path: str) -> None:
    """Also when it holds the characters that the grammar uses."""
    ref = workspace_ref(path, sha256="ab" * 32, lines=(1, 2))

    parsed = parse_ref(ref)
    assert workspace_path(parsed) == path
    assert (parsed.version, parsed.lines) == ("ab" * 6, (1, 2))


def test_refs_are_built_by_name() -> None:
    """So that nobody spells one by hand."""
    assert workspace_ref("a@b#c%d") == "workspace:a%40b%23c%25d"
    assert artifact_ref(RUN, "p.png") == f"artifact:{RUN}/p.png"
    assert mcp_ref("gh", "repo://x y/ü") == "mcp:gh/repo%3A%2F%2Fx%20y%2F%C3%BC"
    assert result_ref(KEY) == f"result:{KEY}"
    assert args_ref(KEY) == f"args:{KEY}"


def test_only_a_workspace_ref_has_a_path() -> None:
    """Nobody reads a skill from the workspace by accident."""
    with pytest.raises(ValueError, match="no workspace path"):
        workspace_path(parse_ref(f"result:{KEY}"))


@pytest.mark.parametrize("artifact", ["", "a/b", "../a", ".a", "a" * 129])
def test_an_artifact_id_is_a_plain_name(artifact: str) -> None:
    """It becomes a part of a key."""
    with pytest.raises(ValueError, match="ref"):
        artifact_ref(RUN, artifact)
