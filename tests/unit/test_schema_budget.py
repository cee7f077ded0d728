"""Budgets have bounds and surface metadata arrives normalised.

Is: `Budget` and `SurfaceMeta`, each rule at its edge (semantics 1.3 and 4.3). Is not: merging of
budgets or reading of raw metadata. Above: nothing. Below: `toolrail_schemas.tool`.
"""

import pytest
from pydantic import ValidationError

from toolrail_schemas import Budget, JsonObject, Source, SurfaceMeta


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("max_calls_per_run", 0, 10_000),
        ("max_calls_per_turn", 1, 128),
        ("max_output_tokens", 64, 200_000),
        ("max_output_bytes", 1, 8 * 1024 * 1024),
        ("timeout_ms", 100, 600_000),
        ("max_concurrency", 1, 10_000),
    ],
)
def test_a_budget_has_bounds(field: str, low: int, high: int) -> None:
    """Both edges are in, one beyond is out, and nothing is coerced."""
    for good in (low, high, None):
        assert getattr(Budget.model_validate({field: good}), field) == good
    for bad in (low - 1, high + 1, str(low + 1), float(high), True):
        with pytest.raises(ValidationError):
            Budget.model_validate({field: bad})


@pytest.mark.parametrize(
    ("source", "tokens", "timeout_ms", "concurrency"),
    [
        (Source.BUILTIN, 8000, 15_000, 1),
        (Source.SKILL, 8000, 10_000, 8),
        (Source.MCP, 4000, 30_000, 4),
        (Source.EXTENSION, 4000, 20_000, 2),
    ],
)
def test_every_source_has_a_default_budget(
    source: Source, tokens: int, timeout_ms: int, concurrency: int
) -> None:
    """The table of semantics 1.3; a reading builtin may run eight at once."""
    budget = Budget.defaults_for(source)

    assert budget == Budget(
        max_calls_per_turn=16,
        max_output_tokens=tokens,
        max_output_bytes=1024 * 1024,
        timeout_ms=timeout_ms,
        max_concurrency=concurrency,
    )
    assert Budget.defaults_for(Source.BUILTIN, read_only=True).max_concurrency == 8


REFUSED: list[JsonObject] = [
    {"tags": [f"t{i}" for i in range(17)]},
    {"tags": ["x" * 33]},
    {"tags": [""]},
    {"tags": ["Upper"]},
    {"tags": ["a", "a"]},
    {"allowed_callers": [" assistant"]},
    {"allowed_callers": ["a", "a"]},
    {"input_examples": [{}, {}, {}, {}, {}, {}]},
    {"input_examples": [{"a": "x" * 4096}]},
    {"input_examples": ["x"]},
    {"deferred_loading": "true"},
    {"always_visible": 1},
    {"x-lime": {}},
]


@pytest.mark.parametrize("fields", REFUSED)
def test_surface_metadata_arrives_normalised_or_not_at_all(fields: JsonObject) -> None:
    """Normalising is the work of the one interpreter."""
    with pytest.raises(ValidationError):
        SurfaceMeta.model_validate(fields)


def test_surface_metadata_at_the_limit_is_taken() -> None:
    """16 tags of 32 characters, 5 examples of 4 KiB, and nobody as caller."""
    meta = SurfaceMeta(
        tags=tuple(f"{i:02}" + "x" * 30 for i in range(16)),
        input_examples=tuple({"a": "x" * (4096 - len('{"a":""}'))} for _ in range(5)),
        allowed_callers=(),
    )

    assert len(meta.tags) == 16
    assert meta.allowed_callers == ()
