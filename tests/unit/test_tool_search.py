"""Which tools a query finds, and in which order.

Is: the terms, the forms of a query and the ranking of semantics 4.8. Is not: who may see a tool,
or how well it finds among real tools (the labelled queries).
Above: nothing. Below: `toolrail.search`.
"""

import random

import pytest

from toolrail.search.document import Document
from toolrail.search.index import Index
from toolrail.search.query import parse_query
from toolrail.search.ranking import Found, search
from toolrail.search.terms import terms
from toolrail_schemas import Source, SourceRef, SurfaceMeta, ToolSpec

DEFINITIONS = {
    "github.create_issue": "Open an issue in a repository.",
    "github.list_pull_requests": "List the pull requests of a repository.",
    "files.read_file": "Return the content of a file.",
    "files.write_file": "Replace the content of a file.",
    "cron.create_job": "Schedule a task that runs at fixed times.",
    "clock.convert_time": "Convert a time between timezones.",
    "amap.weather": "查询指定城市的天气",
}


def index(definitions: dict[str, str] | None = None) -> Index:
    """Return an index over described tools."""
    pairs = (definitions or DEFINITIONS).items()
    return Index([Document.of_definition(name, description=said) for name, said in pairs])


def names(found: Found) -> list[str]:
    """Return what was found, best first."""
    return [hit.document.name for hit in found.hits]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("readFile", ["read", "file", "readfile"]),
        ("read_file", ["read", "file", "readfile"]),
        ("HTTPServer2", ["http", "server", "2", "httpserver2"]),
        ("\uff32\uff45\uff41\uff44 Files", ["read", "file"]),
        ("access status", ["access", "statu"]),
        ("repositories of a repository", ["repository", "of", "a", "repository"]),
        ("天气预报", ["天气", "气预", "预报"]),
        ("查 a", ["查", "a"]),
        ("メッセージ", ["メッ", "ッセ", "セー", "ージ"]),
        ("한국어", ["한국", "국어"]),
        ("***", []),
    ],
)
def test_text_is_cut_into_terms_that_meet(text: str, expected: list[str]) -> None:
    """However a tool spells its name, and in any script."""
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("readFile", "files.read_file"),
        ("open an issue", "github.create_issue"),
        ("schedule task", "cron.create_job"),
        ("timezones", "clock.convert_time"),
        ("conver", "clock.convert_time"),
        ("城市天气", "amap.weather"),
        ("定时 任务", "cron.create_job"),
        ("ファイルを読む", "files.read_file"),
    ],
)
def test_a_query_in_words_finds_its_tool(query: str, first: str) -> None:
    """English by its words and their beginnings; Chinese and Japanese across languages too."""
    assert names(search(index(), query))[0] == first


def test_a_selection_returns_what_is_named_in_its_order() -> None:
    """Exactly, else but for case and punctuation; what is no tool's name is told."""
    found = search(index(), "select: files.write_file,GitHub-CreateIssue, nope,files.write_file")
    assert names(found) == ["files.write_file", "github.create_issue"]
    assert found.not_found == ("nope",)


def test_a_loose_name_of_two_tools_selects_none() -> None:
    """A guess between them could be the wrong one."""
    found = search(index({"a.get_x": "", "a.getx": ""}), "select:A.GETX")
    assert found.not_found == ("A.GETX",)


def test_a_whole_name_comes_first_and_the_rest_is_ranked() -> None:
    """Whatever else has its words."""
    definitions = {"a.list": "list list list", "list.a": "a list of a", "other": "nothing"}
    assert names(search(index(definitions), "a.list"))[0] == "a.list"
    assert search(index(definitions), "a.list").total == 2


def test_required_and_excluded_words_bind() -> None:
    """`+` must be there, `-` must not."""
    assert names(search(index(), "+write content")) == ["files.write_file"]
    assert "files.read_file" not in names(search(index(), "content -read"))
    assert search(index(), "+nowhere content").total == 0


def test_words_that_say_nothing_are_dropped_from_long_queries_only() -> None:
    """A short query may consist of them."""
    assert parse_query("how do i get the time").terms == ("time",)
    assert parse_query("get it").terms == ("get", "it")
    assert parse_query("how to do it").terms


@pytest.mark.parametrize("query", ["", "   ", "select:", "+", "-", "***"])
def test_an_empty_query_finds_nothing(query: str) -> None:
    """Never an arbitrary page of tools."""
    assert search(index(), query).hits == ()
    assert parse_query(query).is_empty


def test_a_stuffed_description_does_not_win() -> None:
    """Repetition saturates and length is held against it."""
    definitions = {"spam.tool": "weather " * 200, "city.weather": "Say how warm it is."}
    assert names(search(index(definitions), "weather"))[0] == "city.weather"


def test_a_part_without_any_term_weighs_nothing() -> None:
    """A tool may be described by signs alone."""
    assert names(search(index({"a.b": "***", "a.c": "find"}), "find")) == ["a.c"]


def test_of_equals_those_the_model_has_come_last() -> None:
    """Then by name."""
    definitions = {"c.find": "x", "a.find": "x", "b.find": "x"}
    found = search(index(definitions), "find", exposed={"a.find"})
    assert names(found) == ["b.find", "c.find", "a.find"]


def test_the_order_of_tools_does_not_change_an_answer() -> None:
    """The same tools give the same hits and scores."""
    documents = [Document.of_definition(name, description=d) for name, d in DEFINITIONS.items()]
    expected = search(Index(documents), "list content of a repository")
    for seed in range(5):
        random.Random(seed).shuffle(documents)  # noqa: S311  # an order, no secret
        assert search(Index(documents), "list content of a repository") == expected


def test_hits_are_limited_and_counted() -> None:
    """The limit is of what is returned."""
    many = {f"t.find_{number}": "find" for number in range(30)}
    found = search(index(many), "find")
    assert len(found.hits) == 8
    assert found.total == 30


def test_a_registered_tool_is_found_by_owner_tags_and_parameters() -> None:
    """The name of its server is a part of its own, not of the tool's name."""
    spec = ToolSpec(
        name="mcp.tracker.open",
        description="Open something.",
        input_schema={
            "type": "object",
            "properties": {
                "filter": {
                    "type": "object",
                    "properties": {"assignee": {"type": "string", "description": "login"}},
                }
            },
        },
        source=Source.MCP,
        source_ref=SourceRef(server="tracker"),
        surface_meta=SurfaceMeta(tags=("bugs",)),
    )
    document = Document.of_spec(spec, aliases=("mcp__tracker__open",))
    for query in ("tracker", "bug", "assignee", "login", "mcp__tracker__open"):
        assert names(search(Index([document]), query)) == ["mcp.tracker.open"], query
    assert document.key == spec.spec_hash
