"""Declaring tools on an extension: what is read from the function, and what is refused why."""

import asyncio

import pytest
from pydantic import BaseModel

from toolrail.errors import ConfigError
from toolrail.extension import Extension
from toolrail.extension.offer import REFUSED, ExtensionToolOptions
from toolrail.settings import Settings
from toolrail.tools import Isolation, ToolContext


class Answer(BaseModel):
    """An answer with a form."""

    text: str


@pytest.fixture
def demo() -> Extension:
    return Extension("Demo-1", version="1.0", settings=Settings())


async def say(text: str, context: ToolContext, times: int = 1) -> Answer:
    """Say a text.

    Args:
        text: What to say.
        times: How often.
    """
    return Answer(text=text * times)


def test_the_schema_is_that_of_any_tool(demo: Extension) -> None:
    """Descriptions from the docstring, the context left out, the answer's form from its type."""
    spec = demo.tool(say).spec

    assert spec.name == "ext.Demo-1.say"
    assert spec.title == "Say"
    assert spec.description == "Say a text."
    assert spec.input_schema["required"] == ["text"]
    assert spec.input_schema["properties"] == {
        "text": {"type": "string", "description": "What to say."},
        "times": {"type": "integer", "default": 1, "description": "How often."},
    }
    assert spec.output_schema is not None


def test_a_name_title_and_description_may_be_given(demo: Extension) -> None:
    """The name as any plain word, not only as Python spells it."""
    made = demo.tool("2-say.it", title="Say it", description="Says it.", timeout_s=90)(say)

    assert made.spec.name == "ext.Demo-1.2-say.it"
    assert (made.spec.title, made.spec.description) == ("Say it", "Says it.")
    assert made.spec.budget.timeout_ms == 90_000


def test_a_blocking_function_runs_in_a_thread_and_says_it_cannot_be_stopped(
    demo: Extension,
) -> None:
    """So it may be defined anywhere, also inside another function."""

    def local() -> str:
        """Say something."""
        return "a"

    blocking, on_loop = demo.tool(local), demo.tool(say)

    assert (blocking.isolation, on_loop.isolation) == (Isolation.THREAD, Isolation.LOOP)
    assert (blocking.spec.annotations.cancellable, on_loop.spec.annotations.cancellable) == (
        False,
        True,
    )


@pytest.mark.parametrize("right", sorted(REFUSED))
def test_no_right_can_be_taken(demo: Extension, right: str) -> None:
    """Visibility, permission, budget, trust: policy decides, and the message says so."""
    options: ExtensionToolOptions = {right: "internal"}  # type: ignore[misc]  # not an option
    with pytest.raises(ConfigError, match=rf"ext\.Demo-1\.say: says {right}, but"):
        demo.tool("say", **options)(say)


@pytest.mark.parametrize("timeout_s", [0.05, 120.5, -1])
def test_a_timeout_out_of_bounds_is_refused(demo: Extension, timeout_s: float) -> None:
    """An extension cannot give itself more than two minutes."""
    with pytest.raises(ConfigError, match=r"ext\.Demo-1\.say: timeout_ms"):
        demo.tool(timeout_s=timeout_s)(say)


def test_a_function_that_no_model_could_call_is_refused_with_its_place(demo: Extension) -> None:
    """By the same rules and in the same words as any tool."""

    def silent() -> str:
        return ""

    def open_ended(*words: str) -> str:
        """Say."""
        return " ".join(words)

    with pytest.raises(ConfigError, match=r"test_extension_offer.py:\d+: .*no description"):
        demo.tool(silent)
    with pytest.raises(ConfigError, match=r"parameter '\*words'"):
        demo.tool(open_ended)


@pytest.mark.parametrize("name", ["a b", "a/b", "ä", "x" * 64])
def test_a_tool_name_that_is_no_plain_word_is_refused(demo: Extension, name: str) -> None:
    """Before anything is connected."""
    with pytest.raises(ConfigError, match="name: "):
        demo.tool(name)(say)


def test_two_tools_of_one_name_are_refused(demo: Extension) -> None:
    """The second one says so."""
    demo.tool(say)
    with pytest.raises(ConfigError, match="two tools have this name"):
        demo.tool(say)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "x" * 65])
def test_an_extension_name_that_is_no_plain_word_is_refused(name: str) -> None:
    """It stands in the name of every tool."""
    with pytest.raises(ConfigError, match="extension_id"):
        Extension(name, version="1", settings=Settings())


def test_numbers_that_cannot_work_are_refused() -> None:
    """A session must survive one lost heartbeat, and needs a slot."""
    with pytest.raises(ConfigError, match="heartbeats do not fit"):
        Extension("demo", version="1", settings=Settings(), heartbeat_s=10, dead_after_s=20)
    for concurrency in (0, 65):
        with pytest.raises(ConfigError, match="not in 1 to 64"):
            Extension("demo", version="1", settings=Settings(), concurrency=concurrency)


async def test_an_extension_without_tools_is_not_served(demo: Extension) -> None:
    """Whoever forgot the decorator reads it at the start."""
    with pytest.raises(ConfigError, match="has no tools"):
        await demo.serve()


def test_a_decorated_function_can_still_be_called(demo: Extension) -> None:
    """Ungoverned, as if it were not decorated, for the author's own tests."""
    made = demo.tool(say)

    assert asyncio.iscoroutine(pending := made("a", ToolContext(run_id="", call_key="")))
    assert asyncio.run(pending) == Answer(text="a")
