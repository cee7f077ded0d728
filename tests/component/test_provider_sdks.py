"""The providers' own SDKs carry what we write and read, over a real connection.

Is: openai, anthropic and google-genai against a server on this machine: two parallel calls, an
error, an image, a large result, a stream cut at every character. Is not: a live API. Above:
nothing. Below: `tests/providers/loopback.py`, the recordings.
"""

import json
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types as google
from pydantic import JsonValue

from tests.providers.loopback import Loopback, loopback
from tests.providers.scenario import (
    MEDIA,
    answer,
    camel,
    check_two_calls,
    recorded,
    recorded_value,
    results,
    specs,
)
from toolrail.providers import (
    Anthropic,
    Conversation,
    Gemini,
    OpenAIChat,
    OpenAIResponses,
    Provider,
)
from toolrail_schemas import JsonObject, ToolResult

LARGE = "line of a long output\n" * 2900
Ask = Callable[[str, list[JsonObject], list[JsonObject], bool], Any]
"""Sends messages and tools to a server's URL, streamed or not, and returns the SDK's answer."""


@dataclass(frozen=True, slots=True)
class Sdk:
    """One SDK in the tests."""

    provider: Provider
    name: str
    key: str
    """What a request calls its messages."""
    first: JsonObject
    """What a person says."""
    ask: Ask


def _ask_chat(
    url: str, messages: list[JsonObject], tools: list[JsonObject], is_stream: bool
) -> Any:
    with openai.OpenAI(api_key="k", base_url=url, max_retries=0) as client:
        create: Any = client.chat.completions.create
        return _all(create(model="m", messages=messages, tools=tools, stream=is_stream), is_stream)


def _ask_responses(
    url: str, messages: list[JsonObject], tools: list[JsonObject], is_stream: bool
) -> Any:
    with openai.OpenAI(api_key="k", base_url=url, max_retries=0) as client:
        create: Any = client.responses.create
        return _all(
            create(model="m", input=messages, tools=tools, store=False, stream=is_stream), is_stream
        )


def _ask_anthropic(
    url: str, messages: list[JsonObject], tools: list[JsonObject], is_stream: bool
) -> Any:
    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0) as client:
        create: Any = client.messages.create
        return _all(
            create(model="m", max_tokens=99, messages=messages, tools=tools, stream=is_stream),
            is_stream,
        )


def _ask_gemini(
    url: str, messages: list[JsonObject], tools: list[JsonObject], is_stream: bool
) -> Any:
    options = google.HttpOptions(base_url=url)
    with genai.Client(api_key="k", http_options=options) as client:
        models: Any = client.models
        ask = models.generate_content_stream if is_stream else models.generate_content
        # From JSON, or the SDK takes base64 for bytes and encodes it again.
        contents = [google.Content.model_validate_json(json.dumps(one)) for one in messages]
        return _all(ask(model="m", contents=contents, config={"tools": tools}), is_stream)


def _all(answered: Any, is_stream: bool) -> Any:
    """Return an answer, or all events of a stream while the connection is there."""
    return list(answered) if is_stream else answered


SDKS = (
    Sdk(OpenAIChat(), "openai_chat", "messages", {"role": "user", "content": "Do it."}, _ask_chat),
    Sdk(
        OpenAIResponses(),
        "openai_responses",
        "input",
        {"role": "user", "content": "Do it."},
        _ask_responses,
    ),
    Sdk(
        Anthropic(), "anthropic", "messages", {"role": "user", "content": "Do it."}, _ask_anthropic
    ),
    Sdk(
        Gemini(), "gemini", "contents", {"role": "user", "parts": [{"text": "Do it."}]}, _ask_gemini
    ),
)
each_sdk = pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)


@pytest.fixture
def server() -> Generator[Loopback]:
    """A provider on this machine."""
    with loopback() as known:
        yield known


def _body(sdk: Sdk, body: JsonObject, key: str) -> JsonValue:
    return camel(body[key]) if sdk.name == "gemini" else body[key]


@each_sdk
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_an_sdk_carries_a_whole_exchange(sdk: Sdk, server: Loopback, is_stream: bool) -> None:
    """Tools out, two calls in, an image and an error out: nothing is lost on the way."""
    chat = Conversation(sdk.provider, run_id="r")
    tools = chat.tools(specs())
    messages = [sdk.first]
    _say(sdk, server, is_stream=is_stream)
    said = sdk.ask(server.url, messages, tools, is_stream)

    turn = chat.decode_events(said) if is_stream else chat.decode(said)

    check_two_calls(turn)
    assert camel(server.bodies[0]["tools"]) == camel([*tools])
    messages += chat.encode(turn, results(turn.requests), media=MEDIA)
    server.say(recorded(f"{sdk.name}.response_2"))
    last = chat.decode(sdk.ask(server.url, messages, tools, False))
    assert not last.goes_on
    assert _body(sdk, server.bodies[1], sdk.key) == _body(sdk, {sdk.key: [*messages]}, sdk.key)
    if not is_stream:
        assert _sent_back(sdk, server.bodies[1]) == _sent_back(
            sdk, recorded(f"{sdk.name}.request_2")
        )


def _sent_back(sdk: Sdk, body: JsonObject) -> JsonValue:
    """Return what follows the person's words."""
    messages = _body(sdk, body, sdk.key)
    assert isinstance(messages, list)
    return messages[1:]


def _say(sdk: Sdk, server: Loopback, *, is_stream: bool) -> None:
    if not is_stream:
        server.say(recorded(f"{sdk.name}.response_1"))
        return
    events = recorded_value(f"{sdk.name}.stream_1.events")
    assert isinstance(events, list)
    server.stream([piece for event in events for piece in _cut(event)])


def _cut(value: JsonValue) -> Iterable[JsonValue]:
    """Yield an event once for every character of the arguments in it."""
    said = json.dumps(value)
    found = re.search(r'"(arguments|partial_json|delta)": ("(?:[^"\\]|\\.)+")', said)
    if found is None or '.done"' in said or '"item"' in said or '"output"' in said:
        yield value
        return
    for letter in json.loads(found[2]):
        yield json.loads(said[: found.start(2)] + json.dumps(letter) + said[found.end(2) :])


@each_sdk
def test_an_sdk_carries_a_large_result(sdk: Sdk, server: Loopback) -> None:
    """Whole, as the largest text that a result holds inline."""
    chat = Conversation(sdk.provider, run_id="r")
    tools = chat.tools(specs())
    server.say(recorded(f"{sdk.name}.response_1"))
    turn = chat.decode(sdk.ask(server.url, [sdk.first], tools, False))
    large: Sequence[ToolResult] = [answer(request, LARGE) for request in turn.requests]
    messages = [sdk.first, *chat.encode(turn, large)]
    server.say(recorded(f"{sdk.name}.response_2"))

    sdk.ask(server.url, messages, tools, False)

    assert json.dumps(server.bodies[1]).count(json.dumps(LARGE)[1:-1]) == 2
