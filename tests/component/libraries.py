"""Call library tools on real stores, as a worker's thread does.

Is: the shortest way from arguments to an output for the chat, skill and world info tests. Is not:
an executor. Above: `test_chat_*.py`, `test_skill*.py`. Below: the tools.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from pydantic import JsonValue

from toolrail.chat import ChatKey, Message, Role
from toolrail.settings import Settings
from toolrail.tools import Tool, ToolContext, ToolOutput
from toolrail_schemas import JsonObject
from toolrail_workers.builtin.library import chat
from toolrail_workers.builtin.library.facts import LocalFacts, RunFacts
from toolrail_workers.builtin.library.library import Library
from toolrail_workers.builtin.library.stores import Stores, open_stores

T = TypeVar("T")

RUN_ID = "run_01JDXZ0000000000000000000A"
TENANT = "default"
_TOOLS: Mapping[str, Tool] = {tool.spec.name: tool for tool in chat.TOOLS}


def ask(question: Coroutine[object, object, T], /) -> T:
    """Run a question on a loop of its own."""
    return asyncio.run(cast("Coroutine[None, None, T]", question))


@dataclass
class Reader:
    """A run that reads, and what there is for it."""

    settings: Settings
    facts: RunFacts = field(default_factory=lambda: LocalFacts(chat="c"))
    calls: int = 0

    def __post_init__(self) -> None:
        self.stores: Stores = open_stores(self.settings, self.facts)

    def run(
        self,
        name: str,
        arguments: JsonObject,
        *,
        run_id: str = RUN_ID,
        call_key: str | None = None,
        max_tokens: int = 20_000,
    ) -> JsonObject:
        """Return the structured answer of a tool; its errors come through."""
        return facts_of(self.output(name, arguments, run_id, call_key, max_tokens))

    def output(
        self,
        name: str,
        arguments: JsonObject,
        run_id: str = RUN_ID,
        call_key: str | None = None,
        max_tokens: int = 20_000,
    ) -> ToolOutput:
        """Return the whole answer of a tool."""
        self.calls += 1
        library = Library(stores=self.stores, run_id=run_id, tenant=TENANT, ask=ask)
        context = ToolContext(
            run_id=run_id,
            call_key=call_key or f"{self.calls:016x}",
            max_output_tokens=max_tokens,
            library=library,
        )
        return _TOOLS[name].run(arguments, context)

    def say(self, *texts: str, chat: str = "c", role: Role = Role.USER) -> int:
        """Add messages to a chat of the tenant and return how many it has."""
        messages = [Message(role=role, content=text) for text in texts]
        return self.stores.chats.append(ChatKey(TENANT, chat), messages)

    def search(self, query: str, **more: JsonValue) -> list[int]:
        """Return the indexes of the hits, the best first."""
        hits = cast("list[JsonObject]", self.run("chat.search", {"query": query, **more})["hits"])
        return [cast("int", hit["index"]) for hit in hits]


def reader(folder: Path, facts: RunFacts | None = None) -> Reader:
    """Return a run that reads what is below a folder."""
    settings = Settings(chat_dir=folder / "chats")
    return Reader(settings) if facts is None else Reader(settings, facts)


def facts_of(output: ToolOutput) -> JsonObject:
    """Return the structured part."""
    assert isinstance(output.structured, dict)
    return output.structured


def messages_of(page: JsonObject) -> Sequence[JsonObject]:
    """Return the messages of a page of history."""
    return cast("list[JsonObject]", page["messages"])
