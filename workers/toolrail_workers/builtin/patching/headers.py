"""Read the header of a chunk: `@@`, an anchor, or the line numbers of a hunk.

Is: `Header` and the words both formats share. Is not: the lines below it.
Above: `v4a.py`, `unified.py`. Below: `model.py`, `problems.py`.
"""

import re
from dataclasses import dataclass

from toolrail_workers.builtin.patching.model import Anchor, Hint
from toolrail_workers.builtin.patching.problems import malformed
from toolrail_workers.builtin.patching.wrapping import Numbered

_NUMBERS = re.compile(
    r"@@ -(?P<start>\d{1,9})(?:,(?P<count>\d{1,9}))?"
    r" \+\d{1,9}(?:,(?P<new_count>\d{1,9}))? @@(?: ?(?P<heading>.*))?"
)


@dataclass(frozen=True, slots=True)
class Header:
    """What one `@@` line says."""

    anchor: Anchor | None = None
    hint: Hint | None = None
    heading: str | None = None
    new_count: int | None = None
    """How many lines the hunk claims to have afterwards; only with `hint`."""


def is_header(text: str) -> bool:
    """Return whether a line starts a chunk."""
    return text.startswith("@@")


def is_no_newline(text: str) -> bool:
    r"""Return whether a line says that the one before ends the file without a newline.

    Its words are translated by some tools, so only the `\ ` counts.
    """
    return text.startswith("\\ ")


def read_header(line: Numbered) -> Header:
    """Return what a line that starts with `@@` says.

    Raises:
        PatchError: `patch.malformed`.
    """
    text = line.text.rstrip()
    numbers = _NUMBERS.fullmatch(text)
    if numbers is not None:
        hint = Hint(int(numbers["start"]), int(numbers["count"] or "1"))
        heading = (numbers["heading"] or "").strip() or None
        return Header(hint=hint, heading=heading, new_count=int(numbers["new_count"] or "1"))
    if text == "@@":
        return Header()
    if not text.startswith("@@ "):
        raise malformed(
            line.number,
            "`@@` is followed by a space and an anchor, or by nothing.",
            "Write `@@ ` and a whole line of the file above the change.",
        )
    anchor = text[3:].removesuffix(" @@")
    return Header(anchor=Anchor(anchor, line.number)) if anchor.strip(" @") else Header()
