"""Selectors: what they match, whom they believe, and which ones are refused.

Is: the grammar and the matching. Is not: what layers make of it.
Above: nothing. Below: `toolrail.policy.selectors`.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.policies import EXTERNAL, READING, ext, flags, mcp, native, policy
from toolrail.policy.selectors import Effect, PolicyTextError, parse_selector, subject_of
from toolrail_schemas import Annotations, HintedAnnotations, Source, ToolSpec

TRUSTED = Annotations.worst_case(HintedAnnotations(read_only=True), trusted=True)
TOOLS: dict[str, ToolSpec] = {
    "read": native("workspace.read_file", annotations=READING),
    "deep": native("workspace.git.log"),
    "search": native("tool_search"),
    "skill": native("skill.read", source=Source.SKILL),
    "issue": mcp("mcp.gh.create_issue", tags=("repo",)),
    "odd": mcp("mcp.gh-2.x.y:z/w"),
    "calm": mcp("mcp.wiki.read", tags=("repo",), annotations=TRUSTED),
    "dice": ext("ext.dice.roll"),
}
FOREIGN = {"issue", "odd", "calm"}


def matched(selector: str, *, widening: bool = False) -> set[str]:
    """Return the short names of the tools that the selector finds."""
    parsed = parse_selector(selector)
    return {
        short
        for short, spec in TOOLS.items()
        if parsed.matches(subject_of(spec), widening=widening)
    }


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("workspace.read_file", {"read"}),
        ("tool_search", {"search"}),
        ("mcp.gh-2.x.y:z/w", {"odd"}),
        ("workspace.*", {"read", "deep"}),
        ("workspace.*.log", {"deep"}),
        ("*read*", {"read", "skill", "calm"}),
        ("*", set(TOOLS)),
        ("source:mcp", FOREIGN),
        ("mcp.*", FOREIGN),
        ("source:skill", {"skill"}),
        ("source:builtin", {"read", "deep", "search"}),
        ("source:extension", {"dice"}),
        ("ext.*", {"dice"}),
        ("server:gh", {"issue"}),
        ("mcp.gh.*", {"issue"}),
        ("mcp.gh*", {"issue", "odd"}),
        ("extension:dice", {"dice"}),
        ("tag:repo", {"issue", "calm"}),
        ("effect:destructive", {"issue", "odd", "dice"}),
        ("effect:external", {"issue", "odd", "dice"}),
        ("effect:high_cost", set[str]()),
    ],
)
def test_a_selector_finds_the_tools_it_names(selector: str, found: set[str]) -> None:
    """Exact names, globs that cross dots, sources, servers, extensions, tags and effects."""
    assert matched(selector) == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [("tag:repo", {"calm"}), ("effect:destructive", set[str]()), ("mcp.gh.*", {"issue"})],
)
def test_untrusted_words_do_not_widen(selector: str, found: set[str]) -> None:
    """Ruling 3.8.8: where a match widens, tags and effects of untrusted tools do not count."""
    assert matched(selector, widening=True) == found


@pytest.mark.parametrize(
    ("layer", "key", "untrusted", "trusted"),
    [
        ("profile", "allow", "FFF", "TTT"),
        ("profile", "deny", "FFF", "FFF"),
        ("platform", "allow_only", "FFF", "TTT"),
        ("user", "waive", "TTT", "TTF"),
        ("user", "require_approval", "TTT", "TTT"),
    ],
)
def test_a_tag_counts_for_an_untrusted_tool_only_where_it_narrows(
    layer: str, key: str, untrusted: str, trusted: str
) -> None:
    """Each list of a layer, with the same tag on an untrusted and on a trusted tool."""
    layers: dict[str, dict[str, JsonValue]] = {"profile": {"allow": ["mcp.*"]}}
    layers[layer] = {key: ["tag:repo"]}
    snapshot = policy(**layers)

    assert flags(snapshot.resolve(TOOLS["issue"])) == untrusted
    assert flags(snapshot.resolve(TOOLS["calm"])) == trusted


def test_approval_by_tag_requires_but_does_not_grant_for_an_untrusted_tool() -> None:
    """`approval` is two words; of an untrusted tool only the narrowing one counts."""
    snapshot = policy(
        user={"tools": {"tag:repo": "approval"}, "waive": ["server:gh"]},
        profile={"allow": ["server:gh"]},
    )

    assert flags(policy(user={"tools": {"tag:repo": "approval"}}).resolve(TOOLS["issue"])) == "FFF"
    assert flags(snapshot.resolve(TOOLS["issue"])) == "TTT"


def test_an_external_effect_goes_by_the_side_effect() -> None:
    """Ruling 3.8.7: a tool that only reads the open world has no external effect."""
    reads_web = native(
        "web.read", annotations=Annotations.for_builtin(read_only=True, open_world=True)
    )
    posts = native("web.post", annotations=EXTERNAL)
    external = parse_selector("effect:external")

    assert not external.matches(subject_of(reads_web), widening=False)
    assert external.matches(subject_of(posts), widening=False)


def test_the_fact_of_trust_overrides_the_annotations() -> None:
    """The context plane may know that the operator set the tags."""
    subject = subject_of(TOOLS["issue"], trusted=True)

    assert parse_selector("tag:repo").matches(subject, widening=True)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("", "is empty or has blanks around it. Write it without blanks."),
        (" mcp.*", "is empty or has blanks around it. Write it without blanks."),
        ("a.b\n.c", "holds a control character or half a surrogate pair. Remove it."),
        ("mcp.s.\ud800", "holds a control character or half a surrogate pair. Remove it."),
        ("a" * 300, "is longer than 256 characters. Use a pattern with *."),
        (
            "workspace.?ead",
            "uses ? or [ ], which are not wildcards here. "
            "Use * in their place; it is the only one.",
        ),
        ("sorce:mcp", "has an unknown prefix 'sorce'. Did you mean 'source'?"),
        (
            "kind:mcp",
            "has an unknown prefix 'kind'. Known: effect, extension, server, source, tag.",
        ),
        ("source:mpc", "names an unknown source 'mpc'. Did you mean 'mcp'?"),
        (
            "effect:writes",
            "names an unknown effect 'writes'. Known: destructive, external, high_cost.",
        ),
        ("server:*", "needs one exact id after server:. Write one selector for each server."),
        ("tag:", "needs one exact id after tag:. Write one selector for each tag."),
        (
            "server:my.server",
            "names the server 'my.server', an id none can have. "
            "Ids are 1 to 64 letters, digits, _ and -, the first a letter or digit.",
        ),
        (
            "tag:Repo",
            "names the tag 'Repo', which no tool can carry. "
            "Tags are lower case and at most 32 characters.",
        ),
        (
            "mcp.gh",
            "is a name no tool can have, since they are mcp.<server>.<tool>. "
            "Write mcp.gh.* for every tool of the server.",
        ),
        (
            "ext.dice.",
            "is a name no tool can have, since they are ext.<extension>.<tool>. "
            "Write ext.dice.* for every tool of the extension.",
        ),
        (
            "Workspace.Read",
            "is a name no tool can have. Builtin names are like notes.add; "
            "others start with mcp.<server>. or ext.<extension>.",
        ),
        (
            "Workspace.*",
            "is a pattern no tool name fits. Builtin names are like notes.add; "
            "others start with mcp.<server>. or ext.<extension>.",
        ),
    ],
)
def test_a_selector_that_cannot_match_is_refused_with_the_fix(selector: str, message: str) -> None:
    """What would be ignored in silence elsewhere is an error here."""
    with pytest.raises(PolicyTextError) as caught:
        parse_selector(selector)

    assert str(caught.value) == message


@given(st.lists(st.text("ab.", max_size=3), min_size=2, max_size=5), st.text("ab.", max_size=12))
def test_a_glob_matches_as_a_regular_expression_would(parts: list[str], name: str) -> None:
    """The linear matcher agrees with the obvious definition: the pieces in order, side by side."""

    def model(rest: list[str], text: str) -> bool:
        first, *others = rest
        if not others:
            return text.endswith(first)
        cut = len(first)
        return any(
            text[at : at + cut] == first and model(others, text[at + cut :])
            for at in range(len(text) + 1)
        )

    pattern = "*" + "*".join(parts)
    tool = mcp(f"mcp.s.{name}x")
    found = parse_selector(pattern).matches(subject_of(tool), widening=False)

    assert found == model(["", *parts], tool.name)


def test_effects_are_the_three_the_semantics_name() -> None:
    """A new effect needs a ruling first."""
    assert {effect.value for effect in Effect} == {"destructive", "external", "high_cost"}
