"""Every schema a tool may have becomes one that each provider takes, and nothing is lost silently.

Is: the corpus of schemas that were refused in the field, and random ones. Is not: a live API.
Above: nothing. Below: `toolrail.providers.schema`, `tests/providers`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.providers.schema_lint import Schema, refusals
from toolrail.providers.schema import (
    ANTHROPIC,
    ANTHROPIC_STRICT,
    GEMINI,
    OPENAI,
    OPENAI_STRICT,
    Adapted,
    Dialect,
    LossKind,
    adapt,
)
from toolrail.providers.schema.adapted import renamed

CORPUS = Path("tests/providers/fixtures/tricky_schemas.json")
CASES = cast("list[dict[str, JsonValue]]", json.loads(CORPUS.read_text(encoding="utf-8")))
DIALECTS = (OPENAI, ANTHROPIC, GEMINI)
STRICT = (OPENAI_STRICT, ANTHROPIC_STRICT)


def _ids(value: object) -> str:
    if isinstance(value, Dialect):
        return value.name
    return str(cast("dict[str, JsonValue]", value)["id"])


def _schema(case: Mapping[str, JsonValue]) -> Schema:
    schema = case["schema"]
    assert isinstance(schema, dict)
    return schema


def _objects(case: Mapping[str, JsonValue], key: str) -> list[JsonValue]:
    values = case[key]
    assert isinstance(values, list)
    return [value for value in values if isinstance(value, dict)]


def _takes(schema: Schema, value: JsonValue) -> bool:
    return jsonschema_rs.Draft202012Validator(schema, offline=True).is_valid(value)


def test_the_corpus_is_whole() -> None:
    """Fifty-six schemas, each from a public report."""
    assert len(CASES) == 56


@pytest.mark.parametrize("dialect", DIALECTS, ids=_ids)
@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_every_tricky_schema_becomes_one_the_provider_takes(
    case: dict[str, JsonValue], dialect: Dialect
) -> None:
    """Nothing known is held against it, what was valid stays valid, and losses are told."""
    before = json.dumps(case)

    adapted = adapt(_schema(case), dialect)

    assert refusals(adapted.schema, dialect.name) == []
    assert json.dumps(case) == before
    for arguments in _objects(case, "valid"):
        wire = adapted.to_wire(arguments)
        assert _takes(adapted.schema, wire)
        assert renamed(wire, adapted.keys) == arguments
    for arguments in _objects(case, "invalid"):
        assert adapted.losses or not _takes(adapted.schema, adapted.to_wire(arguments))


@pytest.mark.parametrize("dialect", STRICT, ids=_ids)
@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_a_lossless_strict_schema_is_one_the_provider_takes(
    case: dict[str, JsonValue], dialect: Dialect
) -> None:
    """The others say that they lose something, so strict is not asked for them."""
    adapted = adapt(_schema(case), dialect)

    assert not adapted.is_lossless or refusals(adapted.schema, dialect.name) == []


@pytest.mark.parametrize("dialect", STRICT, ids=_ids)
def test_strict_serves_about_half_of_the_tricky_schemas(dialect: Dialect) -> None:
    """So that no later change gives strict up unnoticed."""
    assert sum(adapt(_schema(case), dialect).is_lossless for case in CASES) >= 29


@pytest.mark.parametrize("dialect", STRICT, ids=_ids)
def test_keys_by_pattern_are_not_strict(dialect: Dialect) -> None:
    """Not even beside keys by name, which could be closed."""
    node: Schema = {"type": "object", "patternProperties": {"^x": {}}}
    node["properties"] = {"a": {"type": "string"}}

    adapted = adapt({"type": "object", "properties": {"m": node}}, dialect)

    assert not adapted.is_lossless


def test_a_reference_is_never_fetched() -> None:
    """An MCP server's schema is a stranger's."""
    adapted = adapt(
        {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:1/s.json"}}}, OPENAI
    )

    assert adapted.schema["properties"] == {"x": {}}
    assert [loss.kind for loss in adapted.losses] == [LossKind.OPENED]


def test_what_is_told_in_words_names_the_limit() -> None:
    """The model reads in the description what the schema cannot say."""
    adapted = adapt(
        {"type": "object", "properties": {"s": {"type": "string", "pattern": "^a"}}}, GEMINI
    )

    assert adapted.schema["properties"] == {
        "s": {"type": "string", "description": '(pattern: "^a")'}
    }
    assert [(loss.kind, loss.path) for loss in adapted.losses] == [("constraint", "/properties/s")]


# Random schemas: few names and values, so that schemas and instances meet.
_NAMES = st.sampled_from(["a", "b", "type", "$ref", "filter[id]", "名", "title"])
_SCALARS: st.SearchStrategy[JsonValue] = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(["", "a", "b", "x1"]),
    st.booleans(),
    st.none(),
    st.sampled_from([0.5, 1.5]),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_LISTS_OF_NAMES: st.SearchStrategy[JsonValue] = st.lists(_NAMES, max_size=2, unique=True).map(
    lambda names: [*names]
)
_TYPES = ["string", "integer", "number", "boolean", "null", "array", "object"]


def _nodes(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    return st.one_of(_scalars(inner), _objects_of(inner), _arrays_of(inner), _combined(inner))


def _scalars(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    return st.one_of(
        st.booleans(),
        st.fixed_dictionaries({"type": st.sampled_from(_TYPES)}),
        st.fixed_dictionaries(
            {"type": st.lists(st.sampled_from(_TYPES), min_size=1, max_size=3, unique=True)},
            optional={"items": inner, "properties": st.dictionaries(_NAMES, inner, max_size=2)},
        ),
        st.fixed_dictionaries({"enum": st.lists(_SCALARS, min_size=1, max_size=4, unique_by=repr)}),
        st.fixed_dictionaries({"const": _VALUES}),
        st.fixed_dictionaries(
            {"type": st.just("integer"), "minimum": st.integers(-3, 0)},
            optional={"exclusiveMaximum": st.integers(1, 4), "multipleOf": st.just(2)},
        ),
        st.fixed_dictionaries(
            {"type": st.just("string"), "pattern": st.sampled_from(["^a", "(?!b)", "\\p{L}"])},
            optional={"minLength": st.just(1)},
        ),
    )


def _objects_of(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    names: st.SearchStrategy[JsonValue] = _LISTS_OF_NAMES
    optional: dict[str, st.SearchStrategy[JsonValue]] = {
        "type": st.just("object"),
        "properties": st.dictionaries(_NAMES, inner, max_size=3),
        "required": names,
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(_NAMES, names, max_size=1),
        "minProperties": st.just(1),
    }
    return st.fixed_dictionaries({}, optional=optional)


def _arrays_of(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    return st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "minContains": st.integers(0, 2),
            "maxContains": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "minItems": st.integers(0, 2),
        },
    )


def _combined(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        *(st.fixed_dictionaries({key: several}) for key in ("anyOf", "oneOf", "allOf")),
        st.fixed_dictionaries({"not": inner}, optional={"type": st.sampled_from(_TYPES)}),
        st.fixed_dictionaries({"if": inner}, optional={"then": inner, "else": inner}),
        st.fixed_dictionaries(
            {"$ref": st.sampled_from(["#/$defs/A", "#/$defs/B"])},
            optional={
                "description": st.just("d"),
                "required": _LISTS_OF_NAMES,
            },
        ),
    )


_LEAVES: st.SearchStrategy[JsonValue] = st.sampled_from(
    [{"type": "string"}, {"type": "integer"}, {}, {"$ref": "#/$defs/A"}]
)
_NODES = st.recursive(_LEAVES, _nodes, max_leaves=10)
_SCHEMAS = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(_NAMES, _NODES, max_size=4),
        "$defs": st.fixed_dictionaries({"A": _NODES, "B": _NODES}),
    },
    optional={
        "required": st.lists(_NAMES, max_size=2, unique=True),
        "additionalProperties": _NODES,
        **{key: st.lists(_NODES, min_size=1, max_size=2) for key in ("anyOf", "oneOf", "allOf")},
    },
)
_ARGUMENTS = st.lists(st.dictionaries(_NAMES, _VALUES, max_size=4), min_size=4, max_size=10)


def _check(schema: Schema, adapted: Adapted, values: list[dict[str, JsonValue]]) -> None:
    validator = jsonschema_rs.Draft202012Validator(schema, offline=True)
    narrowed = any(loss.kind is LossKind.NARROWED for loss in adapted.losses)
    for value in values:
        try:
            is_valid = validator.is_valid(value)
        except ValueError:  # endless recursion in the schema
            continue
        wire = adapted.to_wire(value)
        assert renamed(wire, adapted.keys) == value
        is_taken = _takes(adapted.schema, wire)
        assert is_taken or narrowed or not is_valid, "a valid call cannot be written"
        assert not is_taken or is_valid or adapted.losses, "a limit was lost silently"


def _of_x(node: JsonValue) -> Schema:
    return {"type": "object", "properties": {"x": node}}


_OVERLAP = _of_x({"oneOf": [{"type": "integer"}, {"type": "number"}]})
_AT_MOST = _of_x({"type": "array", "contains": {"pattern": "(?!a)b"}, "maxContains": 1})
_NO_CHOICE = _of_x({"allOf": [{"type": ["string"]}, {"enum": [None]}]})
_TWO_RESTS = _of_x(
    {
        "allOf": [
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "object", "additionalProperties": {"minimum": 3}},
        ]
    }
)


@example(_OVERLAP, [{"x": 1}])
@example(_AT_MOST, [{"x": ["x", "b"]}])
@example(_NO_CHOICE, [{"x": None}])
@example(_TWO_RESTS, [{"x": {"k": 1}}, {"x": {"k": 3}}])
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(_SCHEMAS, _ARGUMENTS)
def test_any_schema_is_adapted_without_silent_loss(
    schema: Schema, values: list[dict[str, JsonValue]]
) -> None:
    """What was valid can be written, and what can be written is valid, unless it is recorded."""
    try:
        jsonschema_rs.Draft202012Validator(schema, offline=True)
    except (ValueError, jsonschema_rs.ValidationError):
        assume(False)
    for dialect in (*DIALECTS, *STRICT):
        adapted = adapt(schema, dialect)
        if not dialect.is_strict:
            assert refusals(adapted.schema, dialect.name) == []
            _check(schema, adapted, values)
        elif adapted.is_lossless:
            assert refusals(adapted.schema, dialect.name) == []
