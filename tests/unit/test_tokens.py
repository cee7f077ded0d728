"""The token estimate: deterministic, near the truth, and cheap to cut by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrail.tokens import cut_at_tokens, estimate_tokens

# Counts of o200k_base, taken once with a real tokenizer.
MEASURED = (
    ("The tool returned an error because the file could not be found.", 13),
    ('{"id":17,"name":"item-17","score":23.29}', 17),
    ("def claim(self, run_id: str) -> Claim | None:", 14),
    ("工具返回了一个错误。在工作区中找不到该文件。", 14),
)


@pytest.mark.parametrize(("text", "tokens"), MEASURED)
def test_the_estimate_is_near_a_real_tokenizer(text: str, tokens: int) -> None:
    """It may count too many, up to two thirds for Chinese, and hardly too few."""
    assert 0.85 * tokens <= estimate_tokens(text) <= 1.7 * tokens


@given(st.text())
def test_a_text_never_has_more_tokens_than_characters(text: str) -> None:
    """So a text shorter than its budget needs no count at all."""
    assert 0 <= estimate_tokens(text) <= len(text)


@given(st.text(alphabet="aB9 .\n\té中🙂", max_size=300), st.integers(0, 60))
def test_a_cut_has_no_more_tokens_than_asked_for(text: str, tokens: int) -> None:
    """And the next piece, of sixteen characters at most, would not fit."""
    end = cut_at_tokens(text, tokens)

    assert estimate_tokens(text[:end]) <= tokens
    assert end == len(text) or estimate_tokens(text[: end + 16]) > tokens
