"""Answer a search of the run's chat.

Is: the range that is searched, the second try with any of the words, what is told of a hit.
Is not: the search itself (`toolrail.chat`).
Above: `chat.py`. Below: `toolrail.chat`.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from toolrail.chat.query import parse_query
from toolrail.chat.snippet import snippet
from toolrail.chat.store import Match, Role, Scope
from toolrail.errors import ToolError
from toolrail.tools import ToolOutput
from toolrail_schemas import JsonObject
from toolrail_workers.builtin.library.library import BoundChat

LIMIT_MAX = 50
SCAN_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is searched, and where."""

    query: str
    limit: int
    role: Role | None
    start: int
    end: int | None
    scan_limit: int


def search_chat(chat: BoundChat, wanted: Wanted) -> ToolOutput:
    """Return the best hits of the part of the chat that exists for the run.

    Raises:
        ToolError: `chat.empty_query`, or `chat.unavailable`.
    """
    query = parse_query(wanted.query)
    if not query.units:
        raise ToolError(
            "chat.empty_query",
            "The query has no word to search for.",
            next_action="Search for a word or a phrase.",
        )
    end = chat.length if wanted.end is None else min(wanted.end, chat.length)
    start = max(wanted.start, end - wanted.scan_limit)
    scope = Scope(start=start, end=end, role=wanted.role)
    found = chat.store.search(chat.key, query, scope, limit=wanted.limit)
    words = "all"
    loose = query.relaxed()
    if not found and loose is not None:
        # A model asks in sentences; messages with some of the words are better than none.
        found = chat.store.search(chat.key, loose, scope, limit=wanted.limit)
        words = "some"
    facts: JsonObject = {
        "count": len(found),
        "words": words,
        "hits": [_hit(match, snippet(match.message.text, query.units)) for match in found],
        "total_messages": chat.length,
    }
    return ToolOutput(
        content=ToolOutput.json(facts).content,
        structured=facts,
        resource_refs=tuple(f"chat:current#{match.message.index}" for match in found),
    )


def _hit(match: Match, shown: str) -> JsonValue:
    message = match.message
    hit: JsonObject = {"index": message.index, "role": message.role.value}
    if message.name is not None:
        hit["name"] = message.name
    hit["score"] = round(match.score, 3)
    hit["snippet"] = shown
    hit["ref"] = f"chat:current#{message.index}"
    return hit
