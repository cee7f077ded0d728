"""Make a model's answer in each provider's JSON, and judge what would be sent back.

Is: one maker and one judge for each provider, so that a fault is tested on all of them. Is not: the
recordings (`scenario.py`). Above: `test_provider_faults.py`. Below: `toolrail.providers`. Source of
what is judged: providers.md 1.1 to 1.4.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from toolrail.providers import (
    Anthropic,
    Gemini,
    GeminiInteractions,
    OpenAIChat,
    OpenAIResponses,
    Provider,
)
from toolrail_schemas import JsonObject

PATCH = "workspace__apply_patch"


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as a model wrote it."""

    arguments: JsonValue
    """Text stays text where the provider sends text."""
    id: JsonValue = "call_1"
    name: JsonValue = PATCH


@dataclass(frozen=True, slots=True)
class Speaker:
    """One provider in the tests."""

    provider: Provider
    answer: Callable[[Sequence[Asked], str], JsonObject]
    """Of calls, a text and the words "calls" or "length"."""
    judge: Callable[[list[JsonObject]], None]
    """Fails on what the API is known to refuse."""
    model: Callable[[str], Provider]
    said: Callable[[list[JsonObject]], JsonObject]
    """The answer of a model that said these messages of its own."""

    @property
    def name(self) -> str:
        """Of the provider."""
        return self.provider.name


def _chat(calls: Sequence[Asked], stop: str) -> JsonObject:
    listed: list[JsonValue] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": _text(call)},
        }
        for call in calls
    ]
    message: JsonObject = {"role": "assistant", "content": "Hm.", "tool_calls": listed}
    reason = {"calls": "tool_calls", "length": "length"}[stop]
    return {
        "model": "gpt-x",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }


def _responses(calls: Sequence[Asked], stop: str) -> JsonObject:
    said: JsonValue = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hm."}],
    }
    thought: JsonValue = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}
    items: list[JsonValue] = [
        {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": _text(c)}
        for c in calls
    ]
    details: JsonValue = {"reason": "max_output_tokens"} if stop == "length" else None
    status = "incomplete" if stop == "length" else "completed"
    output: list[JsonValue] = [said, thought, *items]
    return {
        "model": "gpt-x",
        "output": output,
        "status": status,
        "incomplete_details": details,
    }


def _messages(calls: Sequence[Asked], stop: str) -> JsonObject:
    blocks: list[JsonValue] = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in calls
    ]
    thought: JsonValue = {"type": "thinking", "thinking": "t", "signature": "s"}
    reason = {"calls": "tool_use", "length": "max_tokens"}[stop]
    said: JsonValue = {"type": "text", "text": "Hm."}
    content = [thought, said, *blocks]
    return {"model": "claude-x", "content": content, "stop_reason": reason}


def _gemini(calls: Sequence[Asked], stop: str) -> JsonObject:
    parts: list[JsonValue] = [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
        for call in calls
    ]
    reason = {"calls": "STOP", "length": "MAX_TOKENS"}[stop]
    said: list[JsonValue] = [{"text": "Hm."}]
    content: JsonValue = {"role": "model", "parts": said + parts}
    return {
        "modelVersion": "gemini-3-x",
        "candidates": [{"content": content, "finishReason": reason}],
    }


def _interactions(calls: Sequence[Asked], stop: str) -> JsonObject:
    said: JsonValue = {"type": "model_output", "content": [{"type": "text", "text": "Hm."}]}
    thought: JsonValue = {"type": "thought", "signature": "s"}
    steps: list[JsonValue] = [thought, said]
    steps.extend(
        {"type": "function_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in calls
    )
    status = {"calls": "requires_action", "length": "incomplete"}[stop]
    return {"model": "gemini-3-x", "status": status, "steps": steps}


def _said_chat(said: list[JsonObject]) -> JsonObject:
    choice: JsonObject = {"message": said[0], "finish_reason": "tool_calls"}
    return {"choices": [choice]}


def _text(call: Asked) -> JsonValue:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def _judge_chat(messages: list[JsonObject]) -> None:
    open_ids: list[JsonValue] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_ids.pop(0)
            assert message["content"]
            continue
        assert not open_ids, "a call without its answer"
        calls = _objects(message.get("tool_calls"))
        assert message["content"] or calls
        assert len(calls) <= 128
        for call in calls:
            _check_called(_mapping(call["function"]), "arguments")
            _check_id(call["id"], 40)
            open_ids.append(call["id"])
    assert not open_ids


def _judge_responses(items: list[JsonObject]) -> None:
    called = [item for item in items if item.get("type") == "function_call"]
    answers = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    for call in called:
        _check_called(call, "arguments")
        _check_id(call["call_id"], 64)
    assert answers == [call["call_id"] for call in called]
    assert not items or items[-1].get("type") != "reasoning"


def _judge_messages(messages: list[JsonObject]) -> None:
    open_ids: list[JsonValue] = []
    for message in messages:
        blocks = _objects(message["content"])
        assert blocks
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert answers == open_ids
        assert all(block["type"] == "tool_result" for block in blocks[: len(answers)])
        called = [block for block in blocks if block["type"] == "tool_use"]
        for block in called:
            _check_called(block, "input")
            _check_id(block["id"], 64)
            assert re.fullmatch(r"[a-zA-Z0-9_-]+", str(block["id"]))
        open_ids = [block["id"] for block in called]
    assert not open_ids


def _judge_gemini(contents: list[JsonObject]) -> None:
    called: list[JsonObject] = []
    for content in contents:
        parts = _objects(content["parts"])
        assert parts
        answers = [_mapping(p["functionResponse"]) for p in parts if "functionResponse" in p]
        if content["role"] == "user" and called:
            assert len(answers) == len(parts) == len(called)
            for call, answer in zip(called, answers, strict=True):
                assert call["name"] == answer["name"]
                assert (call.get("id") or None) == answer.get("id")
                assert set(_mapping(answer["response"])) <= {"output", "error"}
        called = [_mapping(part["functionCall"]) for part in parts if "functionCall" in part]
        for call in called:
            assert isinstance(call.get("args"), dict | None)
            assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", str(call["name"]))
    assert not called


def _judge_interactions(steps: list[JsonObject]) -> None:
    called = [step for step in steps if step.get("type") == "function_call"]
    answers = [step for step in steps if step.get("type") == "function_result"]
    for call, result in zip(called, answers, strict=True):
        assert isinstance(call["arguments"], dict)
        assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", str(call["name"]))
        _check_id(call["id"], 64)
        assert call["id"] == result["call_id"]
        assert result["result"]


def _check_called(call: JsonObject, key: str) -> None:
    arguments = call[key]
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    assert isinstance(arguments, dict)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(call["name"]))


def _check_id(value: JsonValue, most: int) -> None:
    assert isinstance(value, str)
    assert 0 < len(value) <= most


def _objects(value: JsonValue) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _mapping(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict)
    return value


def _said_responses(said: list[JsonObject]) -> JsonObject:
    return {"output": [*said], "status": "completed"}


def _said_messages(said: list[JsonObject]) -> JsonObject:
    return {"content": said[0]["content"], "stop_reason": "tool_use"}


def _said_gemini(said: list[JsonObject]) -> JsonObject:
    candidate: JsonObject = {"content": said[0], "finishReason": "STOP"}
    return {"candidates": [candidate]}


def _said_interactions(said: list[JsonObject]) -> JsonObject:
    return {"steps": [*said], "status": "requires_action"}


SPEAKERS = (
    Speaker(OpenAIChat(), _chat, _judge_chat, lambda name: OpenAIChat(model=name), _said_chat),
    Speaker(
        OpenAIResponses(),
        _responses,
        _judge_responses,
        lambda name: OpenAIResponses(model=name),
        _said_responses,
    ),
    Speaker(
        Anthropic(), _messages, _judge_messages, lambda name: Anthropic(model=name), _said_messages
    ),
    Speaker(Gemini(), _gemini, _judge_gemini, lambda name: Gemini(model=name), _said_gemini),
    Speaker(
        GeminiInteractions(),
        _interactions,
        _judge_interactions,
        lambda name: GeminiInteractions(model=name),
        _said_interactions,
    ),
)
