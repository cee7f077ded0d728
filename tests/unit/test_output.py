"""Fitting an output into its budget: nothing is lost, and what is cut says where the rest is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from toolrail.tokens import estimate_tokens
from toolrail.tools import ToolError, ToolOutput
from toolrail_schemas import (
    Block,
    ImageRefBlock,
    JsonBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResult,
    artifact_ref,
    format_run_id,
    sha256_hex,
)
from toolrail_workers.output import (
    BLOCKS_MAX,
    INLINE_MAX_BYTES,
    FittedOutput,
    OutputLimits,
    fit_output,
)

RUN = format_run_id(1, b"0123456789")
KEY = "0" * 16
LIMITS = OutputLimits(tokens=1000, stored_bytes=1_000_000)
LINES = "".join(f"line {number} of a long listing\n" for number in range(1000))


def fit(output: ToolOutput, limits: OutputLimits = LIMITS) -> FittedOutput:
    """Fit, and show that a result can be made of it."""
    fitted = fit_output(output, run_id=RUN, call_key=KEY, limits=limits)
    ToolResult(
        call_id="c",
        name="demo.tool",
        content=fitted.content,
        structured=fitted.structured,
        resource_refs=fitted.resource_refs,
        truncated=fitted.truncated,
    )
    return fitted


def text_of(fitted: FittedOutput, index: int = 0) -> str:
    """Return the text of a block."""
    block = fitted.content[index]
    assert isinstance(block, TextBlock)
    return block.text


def image(number: int) -> ImageRefBlock:
    """Return a block that only refers."""
    sha256 = sha256_hex(str(number).encode())
    return ImageRefBlock(ref=artifact_ref(RUN, sha256), mime="image/png", bytes=10, sha256=sha256)


def test_a_small_output_stays_as_it_is() -> None:
    """The usual case costs a count of tokens and nothing else."""
    output = ToolOutput(content=(TextBlock(text="three files"),), structured={"files": 3})
    fitted = fit(output)

    assert fitted.content == output.content
    assert fitted.structured == {"files": 3}
    assert not fitted.truncated
    assert fitted.spills == ()
    assert fitted.output_bytes == len("three files") + len('{"files":3}')
    assert fitted.output_tokens == estimate_tokens("three files")


def test_an_empty_output_is_an_output() -> None:
    """A tool may have nothing to say."""
    assert fit(ToolOutput()).content == ()


def test_a_long_text_is_cut_at_a_line_and_stored_whole() -> None:
    """What is shown ends with a line end, a note and a ref."""
    fitted = fit(ToolOutput.text(LINES))
    shown, note, rest = text_of(fitted), text_of(fitted, 1), fitted.content[-1]

    assert LINES.startswith(shown)
    assert shown.endswith("\n")
    assert len(shown) > 2000
    assert isinstance(rest, ResourceRefBlock)
    assert note.startswith("[Cut: ")
    assert rest.uri in fitted.resource_refs
    assert fitted.truncated
    assert [spill.data for spill in fitted.spills] == [LINES.encode()]
    assert rest.uri == artifact_ref(RUN, sha256_hex(LINES.encode()))


def test_what_is_shown_keeps_the_token_budget() -> None:
    """The note about the rest is counted too."""
    fitted = fit(ToolOutput.text(LINES))

    assert fitted.output_tokens <= LIMITS.tokens
    assert fitted.output_tokens == sum(
        estimate_tokens(block.text) for block in fitted.content if isinstance(block, TextBlock)
    )


def test_one_line_that_is_too_long_is_cut_inside() -> None:
    """A line end near the start would leave nearly nothing."""
    fitted = fit(ToolOutput.text("head\n" + "word " * 5000))

    assert len(text_of(fitted)) > 2000


@given(st.text(alphabet="ab\n é中🙂", min_size=1), st.integers(64, 200))
def test_a_cut_never_splits_a_character(piece: str, tokens: int) -> None:
    """Whatever is shown is a beginning of what was said."""
    text = piece * (8000 // len(piece) + 1)
    fitted = fit(ToolOutput.text(text), OutputLimits(tokens=tokens, stored_bytes=8_000_000))

    assert fitted.truncated
    assert len(fitted.content) == 2 or text.startswith(text_of(fitted))
    assert fitted.spills[0].data.decode() == text


def test_a_text_over_the_inline_limit_is_cut_by_bytes() -> None:
    """A generous token budget does not make a result carry more than 64 KiB inline."""
    text = "漢字" * 40_000
    fitted = fit(ToolOutput.text(text), OutputLimits(tokens=200_000, stored_bytes=8_000_000))

    assert INLINE_MAX_BYTES // 2 < len(text_of(fitted).encode()) <= INLINE_MAX_BYTES
    assert fitted.truncated


def test_a_large_json_value_is_shown_in_part_and_stored_whole() -> None:
    """The stored bytes are JSON again."""
    value: JsonValue = [{"id": number, "name": f"item {number}"} for number in range(2000)]
    fitted = fit(ToolOutput.json(value))

    assert json.loads(fitted.spills[0].data) == value
    assert fitted.spills[0].mime == "application/json"
    assert text_of(fitted).startswith('[{"id":0')


def test_structured_output_alone_is_shown_cut_but_kept_for_programs() -> None:
    """Under 256 KiB a program still gets it whole."""
    value: JsonValue = {"items": list(range(5000))}
    fitted = fit(ToolOutput(structured=value))

    assert fitted.structured == value
    assert text_of(fitted).startswith('{"items":[0,1')
    assert fitted.truncated


def test_structured_output_over_its_limit_is_stored() -> None:
    """Then a program follows the ref."""
    value: JsonValue = {"text": "x" * 300_000}
    fitted = fit(ToolOutput(content=(TextBlock(text="done"),), structured=value))

    assert fitted.structured is None
    assert text_of(fitted) == "done"
    assert [json.loads(spill.data) for spill in fitted.spills] == [value]


def test_more_blocks_than_a_result_carries_are_stored() -> None:
    """All texts together make one stored text."""
    blocks: tuple[Block, ...] = tuple(TextBlock(text=f"part {n}") for n in range(50))
    fitted = fit(ToolOutput(content=blocks))

    assert len(fitted.content) <= BLOCKS_MAX
    assert isinstance(fitted.content[-1], ResourceRefBlock)
    assert fitted.spills[0].data.decode().splitlines() == [f"part {n}" for n in range(50)]


def test_media_behind_a_cut_text_stay_visible() -> None:
    """They cost no text, and a picture is often the point."""
    fitted = fit(ToolOutput(content=(TextBlock.model_construct(text=LINES), image(1))))

    assert image(1) in fitted.content
    assert image(1).ref in fitted.resource_refs


def test_texts_after_the_cut_are_left_out() -> None:
    """A later piece without the earlier one would be read as following it."""
    later = TextBlock(text="the conclusion")
    fitted = fit(ToolOutput(content=(TextBlock.model_construct(text=LINES), later)))

    assert later not in fitted.content
    assert fitted.spills[0].data.decode().endswith("the conclusion")


def test_an_output_over_the_stored_limit_is_refused() -> None:
    """Recoverable: the model can ask for less."""
    with pytest.raises(ToolError) as caught:
        fit(ToolOutput.text("x" * 2_000_000))

    assert caught.value.code == "tool.output_too_large"
    assert "2000000" in caught.value.message


@pytest.mark.parametrize(
    "output",
    [
        ToolOutput(resource_refs=("http://example.org/",)),
        ToolOutput(resource_refs=(f"artifact:{format_run_id(2, b'0123456789')}/x",)),
        ToolOutput(content=(TextBlock.model_construct(text="\ud800"),)),
        ToolOutput(structured=float("nan")),
        ToolOutput(content=(JsonBlock.model_construct(value={"a": "\ud800"}),)),
    ],
)
def test_what_cannot_stand_in_a_result_is_the_tools_fault(output: ToolOutput) -> None:
    """Foreign refs, refs of another run, half surrogates and NaN."""
    with pytest.raises(ToolError) as caught:
        fit(output)

    assert caught.value.code == "tool.invalid_output"


def test_a_text_that_speaks_of_nan_is_no_number() -> None:
    """Only numbers can be NaN."""
    assert not fit(ToolOutput(structured={"said": "NaN and Infinity"})).truncated


def test_refs_of_blocks_and_output_are_given_out_once() -> None:
    """In the order of the blocks, then the others."""
    other = artifact_ref(RUN, "b")
    fitted = fit(ToolOutput(content=(image(1),), resource_refs=(other, image(1).ref)))

    assert fitted.resource_refs == (image(1).ref, other)


def test_a_tool_that_cut_by_itself_gives_out_the_call_at_least() -> None:
    """Truncated without a ref would be a dead end."""
    fitted = fit(ToolOutput(content=(TextBlock(text="page 1"),), truncated=True))

    assert fitted.truncated
    assert fitted.resource_refs == (f"result:{KEY}",)
