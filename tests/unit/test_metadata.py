"""What surface metadata says, who may say it, and how far the writer is believed.

Is: rulings D12 to D14 of the semantics. Is not: deferral by count. Above: nothing.
Below: `toolrail.metadata`.
"""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from toolrail.metadata import Resolved, read_words, resolve_surface, without_containers
from toolrail_schemas import JsonObject

SCHEMA: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
Raw = dict[str, JsonValue]


def told(
    own: Raw | None = None,
    *,
    key: str = "io.toolrail/surface",
    trusted: bool = True,
    override: Raw | None = None,
    default: Raw | None = None,
    schema: JsonObject = SCHEMA,
) -> Resolved:
    meta: Mapping[str, JsonValue] | None = None if own is None else {key: own}
    return resolve_surface(
        schema=schema, meta=meta, override=override, default=default, trusted=trusted
    )


@pytest.mark.parametrize("key", ["tool-surface", "io.toolrail/surface", "com.example/tool-surface"])
def test_mcp_metadata_is_found_under_each_agreed_key(key: str) -> None:
    """Plain, ours, or behind any reverse-DNS prefix."""
    assert told({"tags": ["weather"]}, key=key).surface.tags == ("weather",)


@pytest.mark.parametrize("key", ["x-tool-surface", "x_tool_surface", "x-lime", "x_lime"])
def test_a_container_in_the_schema_is_read_and_stripped(key: str) -> None:
    """Providers never see it."""
    schema: JsonObject = {**SCHEMA, key: {"deferredLoading": True}}
    resolved = resolve_surface(schema=schema, trusted=False)

    assert resolved.surface.deferred_loading is True
    assert without_containers(schema) == SCHEMA


def test_governance_words_at_the_schema_root_are_parameters_not_metadata() -> None:
    """A tool may well have a schema keyword or extension of such a name; it smuggles nothing."""
    schema: JsonObject = {**SCHEMA, "allowed_callers": ["user"]}

    assert resolve_surface(schema=schema, trusted=True).surface.allowed_callers is None


def test_each_field_comes_from_the_first_writer_that_sets_it() -> None:
    """Override, then `_meta`, then the container, then the server's default."""
    schema: JsonObject = {**SCHEMA, "x-tool-surface": {"tags": ["schema"], "always_visible": True}}
    resolved = told(
        {"tags": ["meta"]},
        override={"deferred_loading": False},
        default={"deferred_loading": True, "tags": ["default"], "allowed_callers": ["user"]},
        schema=schema,
    )

    assert resolved.surface.tags == ("meta",)
    assert resolved.surface.always_visible is True
    assert resolved.surface.deferred_loading is False
    assert resolved.surface.allowed_callers == ("user",)
    assert resolved.origins == {
        "deferred_loading": "override",
        "always_visible": "tool",
        "allowed_callers": "server_default",
        "tags": "tool",
    }


@pytest.mark.parametrize("said", [[], [1, None], "assistant", {"assistant": True}])
def test_a_caller_list_that_names_nobody_means_nobody(said: JsonValue) -> None:
    """Only null means everyone; anything malformed fails closed."""
    assert told({"allowed_callers": said}).surface.allowed_callers == ()


def test_callers_have_their_usual_aliases() -> None:
    """Trimmed, in lower case, each once, in order."""
    said: Raw = {"allowedCallers": [" Direct ", "model", "code_execution_20250825", "user"]}

    assert told(said).surface.allowed_callers == ("assistant", "code_execution", "user")


def test_an_untrusted_tool_cannot_make_itself_visible() -> None:
    """Loosening words are ignored, tightening ones count."""
    loose = told({"always_visible": True, "deferred_loading": False}, trusted=False)
    tight = told({"deferred_loading": True, "allowed_callers": ["user"]}, trusted=False)

    assert loose.surface.always_visible is None
    assert loose.surface.deferred_loading is None
    assert tight.surface.deferred_loading is True
    assert tight.surface.allowed_callers == ("user",)


def test_an_untrusted_tool_cannot_admit_callers_its_server_may_not_have() -> None:
    """Its own list outranks the default, so it is cut against it."""
    said: Raw = {"allowed_callers": ["assistant", "user"]}
    resolved = told(said, default={"allowed_callers": ["user"]}, trusted=False)

    assert resolved.surface.allowed_callers == ("user",)


def test_examples_that_do_not_fit_are_dropped_with_a_warning() -> None:
    """A provider would refuse the whole request."""
    resolved = told({"input_examples": [{"city": "Oslo"}, None, {"city": 7}, "Oslo"]})

    assert resolved.surface.input_examples == ({"city": "Oslo"},)
    assert len(resolved.warnings) == 2


def test_a_word_that_is_no_key_is_a_warning() -> None:
    """So that a typing error does not pass in silence."""
    assert told({"alwaysVisble": True}).warnings == ("'alwaysVisble' is no surface key",)


WORDS = st.text("aU _\x00\u00e9\u200b", max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS | st.just("user"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["deferred_loading", "always_visible", "allowed_callers", "tags", "input_examples", "other"]
)


@given(own=st.dictionaries(KEYS, JSON, max_size=6), default=st.dictionaries(KEYS, JSON))
def test_no_word_of_an_untrusted_tool_breaks_or_loosens_anything(own: Raw, default: Raw) -> None:
    """Whatever it says, the result is valid and no looser than with silence."""
    silent = told(None, default=default, trusted=False).surface
    spoken = told(own, default=default, trusted=False).surface

    assert not spoken.always_visible or silent.always_visible
    assert spoken.deferred_loading or not silent.deferred_loading
    if silent.allowed_callers is not None:
        assert set(spoken.allowed_callers or ()) <= set(silent.allowed_callers)
        assert spoken.allowed_callers is not None


def test_words_can_be_checked_before_there_is_a_tool() -> None:
    """An operator's file is read before any server has started."""
    warnings: list[str] = []
    words = read_words({"tags": "weather"}, warnings)

    assert words.tags is None
    assert warnings == ["tags is not a list"]
