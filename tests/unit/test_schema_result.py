"""A ToolResult cannot contradict itself.

Is: the blocks and invariants of semantics 1.5, each at its edge. Is not: cutting output to a
budget. Above: nothing. Below: `toolrail_schemas.result`, `toolrail_schemas.content`.
"""

import pytest
from pydantic import ValidationError

from toolrail_schemas import (
    AudioRefBlock,
    Block,
    DiffRefBlock,
    ErrorClass,
    FileRefBlock,
    ImageRefBlock,
    JsonBlock,
    JsonObject,
    ResourceRefBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    Usage,
    error_info,
    ref_of,
)

KIB = 1024
RUN = "run_01JDXAMP0E0000000000000000"
REF = f"artifact:{RUN}/a1"
SHA = "ab" * 32
STORED: JsonObject = {"ref": REF, "bytes": 10, "sha256": SHA}
ONE: JsonObject = {"kind": "json", "value": 1}
BLOCKS: list[Block] = [
    TextBlock(text="hi"),
    JsonBlock(value={"a": [1, None]}),
    ImageRefBlock(ref=REF, mime="image/png", bytes=10, sha256=SHA, width=2, height=1, alt="dot"),
    AudioRefBlock(ref=REF, mime="audio/ogg", bytes=10, sha256=SHA, duration_ms=5),
    FileRefBlock(ref=REF, path="output/a.bin", bytes=10, sha256=SHA),
    ResourceRefBlock(uri="result:0123456789abcdef", title="the rest"),
    DiffRefBlock(ref=REF, files=("a.md",), added=1, removed=0),
]
ERROR: JsonObject = {
    "is_error": True,
    "error_code": "tool.timeout",
    "error_class": "recoverable",
    "content": [{"kind": "text", "text": "Ask for less."}],
}


def result(**changes: object) -> ToolResult:
    """Return an empty answer, with changes."""
    return ToolResult.model_validate({"call_id": "c1", "name": "notes.add", **changes})


def json_of(size: int) -> JsonObject:
    """Return an object of so many bytes of JSON."""
    return {"a": "x" * (size - len('{"a":""}'))}


def test_the_seven_kinds_of_block_survive_the_wire() -> None:
    """In order, told apart by `kind`; their refs are given out."""
    refs = tuple(dict.fromkeys(ref for block in BLOCKS if (ref := ref_of(block)) is not None))
    whole = result(content=BLOCKS, resource_refs=refs)

    assert [block.kind for block in BLOCKS] == [
        "text",
        "json",
        "image_ref",
        "audio_ref",
        "file_ref",
        "resource_ref",
        "diff_ref",
    ]
    assert ToolResult.model_validate_json(whole.model_dump_json()) == whole
    assert ToolResult.model_validate(whole.model_dump()) == whole


@pytest.mark.parametrize(
    "block",
    [
        {"kind": "video_ref"},
        {"text": "no kind"},
        {"kind": "text", "text": "\ud800"},
        {"kind": "text", "text": "x" * (64 * KIB + 1)},
        {"kind": "text", "text": "ü" * (32 * KIB + 1)},
        {"kind": "text", "text": "x", "data": "aGk="},
        {"kind": "json", "value": json_of(64 * KIB + 1)},
        {"kind": "json", "value": float("nan")},
        {"kind": "image_ref", "mime": "image/svg+xml", **STORED},
        {"kind": "image_ref", "mime": "image/png", **STORED, "bytes": 8 * KIB * KIB + 1},
        {"kind": "image_ref", "mime": "image/png", **STORED, "width": 0},
        {"kind": "image_ref", "mime": "image/png", **STORED, "ref": "https://example.com/x.png"},
        {"kind": "audio_ref", "mime": "video/mp4", **STORED},
        {"kind": "audio_ref", "mime": "audio/", **STORED},
        {"kind": "audio_ref", "mime": "audio/ogg", **STORED, "bytes": 32 * KIB * KIB + 1},
        {"kind": "file_ref", "path": "", **STORED},
        {"kind": "file_ref", "path": "a", **STORED, "sha256": "AB" * 32},
        {"kind": "file_ref", "path": "a", **STORED, "bytes": -1},
        {"kind": "file_ref", "path": "a", **STORED, "mime": "nonsense"},
        {"kind": "resource_ref", "uri": "file:///etc/passwd"},
        {"kind": "diff_ref", "ref": REF, "format": "git", "files": [], "added": 0, "removed": 0},
        {"kind": "diff_ref", "ref": REF, "files": 51 * ["a"], "added": 0, "removed": 0},
    ],
)
def test_a_block_beyond_its_limits_is_refused(block: JsonObject) -> None:
    """Media travel by ref, text and JSON are small, refs follow the grammar."""
    with pytest.raises(ValidationError):
        result(content=[block], resource_refs=[REF])


@pytest.mark.parametrize(
    "block",
    [
        {"kind": "text", "text": ""},
        {"kind": "text", "text": "x" * 64 * KIB},
        {"kind": "text", "text": "ü" * 32 * KIB},
        {"kind": "json", "value": json_of(64 * KIB)},
        {"kind": "json", "value": None},
        {"kind": "image_ref", "mime": "image/webp", **STORED, "bytes": 8 * KIB * KIB},
        {"kind": "audio_ref", "mime": "audio/ogg", **STORED, "bytes": 32 * KIB * KIB},
        {"kind": "file_ref", "path": "x" * 512, **STORED, "bytes": 0},
    ],
)
def test_a_block_at_its_limit_is_taken(block: JsonObject) -> None:
    """The edge is inside."""
    assert result(content=[block], resource_refs=[REF]).content


@pytest.mark.parametrize(
    "changes",
    [
        {"is_error": True},
        {**ERROR, "error_code": None},
        {**ERROR, "error_class": None},
        {**ERROR, "is_error": False},
        {"error_code": "tool.timeout"},
        {"error_class": "system"},
        {**ERROR, "content": []},
        {**ERROR, "content": [{"kind": "text", "text": ""}]},
        {**ERROR, "content": [ONE]},
        {**ERROR, "error_code": "Timeout"},
        {**ERROR, "error_code": "timeout"},
        {**ERROR, "error_code": "tool.timeout\n"},
        {**ERROR, "error_code": "tool." + "x" * 124},
        {"truncated": True},
        {"content": [{"kind": "resource_ref", "uri": REF}], "truncated": False},
        {"resource_refs": ["nonsense"]},
        {"call_id": ""},
        {"usage": {"queue_ms": -1}},
        {"usage": {"cost": float("inf")}},
        {"usage": {"cost": -0.1}},
        {"is_error": "false"},
        {"extra": 1},
    ],
)
def test_a_result_that_contradicts_itself_is_refused(changes: dict[str, object]) -> None:
    """One line per invariant of semantics 1.5."""
    with pytest.raises(ValidationError):
        result(**changes)


def test_an_empty_answer_is_legal_and_used_nothing() -> None:
    """A tool may have nothing to say; usage is always there."""
    assert result().usage == Usage(
        queue_ms=0, duration_ms=0, output_bytes=0, output_tokens=0, attempts=0
    )
    assert result(structured={"a": 1}).content == ()


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (
            {"content": [{"kind": "text", "text": "x"} for _ in range(32)]},
            {"content": [{"kind": "text", "text": "x"} for _ in range(33)]},
        ),
        ({"structured": json_of(256 * KIB)}, {"structured": json_of(256 * KIB + 1)}),
        (
            {"resource_refs": [f"worldinfo:{i}" for i in range(64)]},
            {"resource_refs": [f"worldinfo:{i}" for i in range(65)]},
        ),
    ],
)
def test_a_result_is_bounded(good: JsonObject, bad: JsonObject) -> None:
    """32 blocks, 256 KiB of structure, 64 refs."""
    assert result(**good)
    with pytest.raises(ValidationError):
        result(**bad)


@pytest.mark.parametrize("made_up", ["no\nsuch\ttool", "x" * 256, "../../etc", "a\x00"])
def test_a_call_of_a_made_up_name_can_be_answered(made_up: str) -> None:
    """Whatever the model wrote as name or id, it gets its result."""
    asked = ToolCall(id="a\nb", name=made_up)

    answer = ToolResult.failure(asked.id, asked.name, code="tool.not_found")

    assert (answer.call_id, answer.name) == (asked.id, made_up)


def test_each_ref_is_given_out_once() -> None:
    """The first place counts."""
    assert result(resource_refs=[REF, "worldinfo:a", REF]).resource_refs == (REF, "worldinfo:a")


def test_a_truncated_answer_says_where_the_rest_is() -> None:
    """At least one ref."""
    assert result(truncated=True, resource_refs=[REF]).truncated


def test_a_failure_speaks_the_words_of_its_code() -> None:
    """Unless told what to say."""
    info = error_info("tool.timeout")

    plain = ToolResult.failure("c1", "notes.add", code="tool.timeout")
    own = ToolResult.failure("c1", "notes.add", code="shop.closed", text="Closed.")

    assert plain.content == (TextBlock(text=f"{info.sentence} {info.remedy}"),)
    assert plain.error_class is ErrorClass.RECOVERABLE
    assert own.error_code == "shop.closed"
    assert own.content == (TextBlock(text="Closed."),)


def test_a_long_failure_loses_its_end_but_not_what_to_do_next() -> None:
    """At most 2000 characters; the remedy of the code stands for the advice that was cut off."""
    text = "x" * 2000 + " Correct them."
    failure = ToolResult.failure("c1", "notes.add", code="tool.invalid_arguments", text=text)
    (block,) = failure.content

    assert isinstance(block, TextBlock)
    assert len(block.text) == 2000
    assert block.text.endswith(f"x… {error_info('tool.invalid_arguments').remedy}")
