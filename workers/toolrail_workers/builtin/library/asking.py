"""Ask the worker's loop something from a tool's thread.

Is: the way from a thread to what is async, with a bound. Is not: a question.
Above: `library.py`. Below: asyncio.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import TypeVar

from toolrail.errors import RedisError, ToolError

T = TypeVar("T")

ASK_S = 10.0
"""Patience of a thread; longer than that of the ledger's own reads."""

log = logging.getLogger(__name__)


class Asking:
    """The way to one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, question: Coroutine[object, object, T], /) -> T:
        """Return what the coroutine returned on the loop.

        Raises:
            ToolError: `tool.execution_failed`, there was no answer in time.
        """
        asked = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return asked.result(timeout=ASK_S)
        except (RedisError, TimeoutError) as error:
            log.warning("library.not_asked", extra={"reason": type(error).__name__})
            raise ToolError(
                "tool.execution_failed",
                "What this run may read could not be looked up.",
                next_action="Try once more later.",
            ) from error
        finally:
            asked.cancel()
