"""Compare two blocks that differ in indentation only, and carry the difference over.

Is: `Shift`, found only where every line differs in the same way. Is not: a search.
Above: `placing.py`, `rebuilding.py`. Below: nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_WIDTHS = (2, 3, 4, 8)


@dataclass(frozen=True, slots=True)
class Shift:
    """How the indentation of a patch becomes that of a file."""

    patch: str
    """What the patch has in the place of `file`, at the front of each line; may be empty."""
    file: str
    repeated: bool = False
    """Whether each repetition of `patch` stands for one of `file`, such as spaces for tabs."""

    def apply(self, text: str) -> str:
        """Return a line of the patch with the file's indentation; a blank line stays as it is."""
        if not text.strip(" \t"):
            return text
        if not self.repeated:
            if text.startswith(self.patch):
                return self.file + text[len(self.patch) :]
            return text
        indent = _indent(text)
        levels, rest = 0, indent
        while rest.startswith(self.patch):
            levels, rest = levels + 1, rest[len(self.patch) :]
        return self.file * levels + rest + text[len(indent) :]


def find_shift(patch: Sequence[str], file: Sequence[str]) -> Shift | None:
    """Return the one difference in indentation between equal blocks, or None if there is none.

    Args:
        patch: Lines as the patch has them.
        file: The same number of lines as the file has them.
    """
    pairs = [
        (_indent(ours), _indent(theirs))
        for ours, theirs in zip(patch, file, strict=True)
        if ours.strip(" \t")
    ]
    if not pairs:
        return Shift("", "")
    candidates = [_front(*pairs[0])]
    candidates += [Shift(" " * width, "\t", repeated=True) for width in _WIDTHS]
    candidates += [Shift("\t", " " * width, repeated=True) for width in _WIDTHS]
    for shift in candidates:
        if all(_holds(shift, ours, theirs) for ours, theirs in pairs):
            return shift
    return None


def _indent(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]


def _front(ours: str, theirs: str) -> Shift:
    """Return the difference at the front: what is left of both without their common end."""
    common = 0
    while common < min(len(ours), len(theirs)) and ours[-1 - common] == theirs[-1 - common]:
        common += 1
    return Shift(ours[: len(ours) - common], theirs[: len(theirs) - common])


def _holds(shift: Shift, ours: str, theirs: str) -> bool:
    if not shift.repeated and not ours.startswith(shift.patch):
        return False
    return shift.apply(ours + "x") == theirs + "x"
