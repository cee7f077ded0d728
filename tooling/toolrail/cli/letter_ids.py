"""Find the dead letters that a person means by the beginnings of their ids.

Is: the same rules as for questions. Is not: those rules (`approvals_ids.py`).
Above: `dlq.py`. Below: `toolrail.dead_letters`.
"""

from collections.abc import Sequence

from toolrail.cli.approvals_ids import GIVEN_MIN_CHARS, beginning_with, is_whole, listed
from toolrail.dead_letters import DeadLetters, LetterNotFound


async def find_letters(dead: DeadLetters, given: Sequence[str]) -> list[str]:
    """Return the ids for whole ones, or beginnings of them or of their call keys; each once.

    A letter that was handled is off the list, and found by its whole id only.

    Raises:
        LetterNotFound: Nothing on the list begins like this, more than one does, or it is too
            short; then nothing is done about the others either.
    """
    texts = [text.strip() for text in given]
    ids = [] if all(map(is_whole, texts)) else await dead.ids()
    return list(dict.fromkeys(_find(text, ids) for text in texts))


def _find(text: str, ids: Sequence[str]) -> str:
    if is_whole(text):
        return text
    shown = repr(text[:80])
    if len(text) < GIVEN_MIN_CHARS:
        raise LetterNotFound(
            f"{shown} is too short for an id. Give at least {GIVEN_MIN_CHARS} characters of what "
            "`toolrail dlq list` shows."
        )
    found = beginning_with(text, ids)
    if not found:
        raise LetterNotFound(
            f"No dead letter on the list has an id that begins with {shown}. `toolrail dlq list` "
            "shows them; one that was handled is found by its whole id."
        )
    if len(found) > 1:
        raise LetterNotFound(f"{shown} could be {listed(found)}. Give more of it.")
    return found[0]
