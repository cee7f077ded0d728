"""Declare the chat tools: search, and two ways to page.

Is: names, parameters and examples, as a model and a policy see them. Is not: what they do
(`finding.py`, `history.py`).
Above: the entry point `toolrail.tools`, `executor.py`. Below: those two, `library.py`.
"""

from typing import Annotated, Literal

from pydantic import Field

from toolrail.chat.query import QUERY_MAX_CHARS
from toolrail.chat.store import Role
from toolrail.tools import Budget, Isolation, SurfaceMeta, Tool, ToolContext, ToolOutput, tool
from toolrail_workers.builtin.library.cursor import CURSOR_MAX_CHARS
from toolrail_workers.builtin.library.finding import LIMIT_MAX, SCAN_MAX, Wanted, search_chat
from toolrail_workers.builtin.library.history import (
    CHARS_MAX,
    COUNT_MAX,
    PageSize,
    read_before,
    read_tail,
)
from toolrail_workers.builtin.library.library import library_of

BUDGET = Budget(max_output_tokens=20_000)
TAGS = ("chat", "history")
PageCount = Annotated[int, Field(ge=1, le=COUNT_MAX, description="Most messages.")]
PageChars = Annotated[
    int, Field(ge=1, le=CHARS_MAX, description="Most characters of them together.")
]


@tool(
    "chat.search",
    title="Search chat",
    read_only=True,
    open_world=False,
    idempotent=True,
    isolation=Isolation.THREAD,
    budget=BUDGET,
    surface=SurfaceMeta(
        tags=TAGS,
        input_examples=(
            {"query": '"blue door" key'},
            {"query": "生日", "role": "user", "limit": 5},
        ),
    ),
)
def search(
    context: ToolContext,
    query: Annotated[
        str,
        Field(
            min_length=1,
            max_length=QUERY_MAX_CHARS,
            description='Words that a message must all have; "…" for words that stand together.',
        ),
    ],
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="Most hits.")] = 20,
    role: Annotated[
        Literal["user", "assistant", "system"] | None, Field(description="Who said it.")
    ] = None,
    start_index: Annotated[
        int | None, Field(ge=0, description="First message to search, from 0.")
    ] = None,
    end_index: Annotated[int | None, Field(ge=0, description="Message to stop before.")] = None,
    scan_limit: Annotated[
        int, Field(ge=1, le=SCAN_MAX, description="Search only so many, the newest.")
    ] = SCAN_MAX,
) -> ToolOutput:
    """Search the messages of this conversation, older ones than you see included.

    Best hits first, each with its index and a snippet. Where no message has all the words, those
    with some are given (words: some).
    """
    wanted = Wanted(
        query=query,
        limit=limit,
        role=None if role is None else Role(role),
        start=start_index or 0,
        end=end_index,
        scan_limit=scan_limit,
    )
    return search_chat(library_of(context).chat, wanted)


@tool(
    "chat.read_history_tail",
    title="Read newest messages",
    read_only=True,
    open_world=False,
    idempotent=True,
    isolation=Isolation.THREAD,
    budget=BUDGET,
    surface=SurfaceMeta(tags=TAGS, input_examples=({}, {"count": 50, "max_chars": 20_000})),
)
def tail(context: ToolContext, count: PageCount = 20, max_chars: PageChars = 8_000) -> ToolOutput:
    """Read the newest messages of this conversation, in order.

    before_cursor leads to the page before; null at the start of the conversation.
    """
    size = PageSize(count=count, max_chars=max_chars, max_tokens=context.max_output_tokens)
    return read_tail(library_of(context).chat, size)


@tool(
    "chat.read_history_before",
    title="Read earlier messages",
    read_only=True,
    open_world=False,
    idempotent=True,
    isolation=Isolation.THREAD,
    budget=BUDGET,
    surface=SurfaceMeta(tags=TAGS, input_examples=({"cursor": "eyJ2IjoxfQ", "count": 30},)),
)
def before(
    context: ToolContext,
    cursor: Annotated[
        str,
        Field(
            min_length=1, max_length=CURSOR_MAX_CHARS, description="before_cursor of the last page."
        ),
    ],
    count: PageCount = 20,
    max_chars: PageChars = 8_000,
) -> ToolOutput:
    """Read the messages just before a page that you have read."""
    size = PageSize(count=count, max_chars=max_chars, max_tokens=context.max_output_tokens)
    return read_before(library_of(context).chat, cursor, size)


TOOLS: tuple[Tool, ...] = (search, tail, before)
