"""Say what is wrong with a patch, with the data that repairs it (semantics 5.5.6).

Is: the one error class of the engine, located as it travels up. Is not: a decision when to raise.
Above: every module of this package. Below: `toolrail.errors`.
"""

from toolrail.errors import ToolError
from toolrail_schemas import JsonObject

EXCERPT_LINES = 20
LINE_MAX_CHARS = 200
CANDIDATES_MAX = 20


class PatchError(ToolError):
    """A patch that was not applied; nothing was changed."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        next_action: str | None = None,
        facts: JsonObject | None = None,
    ) -> None:
        """Build the error.

        Args:
            code: Without its prefix, such as `context_mismatch`.
            message: What is wrong, a sentence.
            next_action: How to repair it; None leaves the catalogue's advice.
            facts: Repair data: `patch_line`, `chunk`, `expected`, `found`, `excerpt`, …
        """
        self.facts: JsonObject = facts or {}
        super().__init__(f"patch.{code}", message, next_action=next_action, structured=self.facts)

    def located(self, **where: str | int | None) -> "PatchError":
        """Return the same error with facts its raiser could not know: operation, path, version."""
        known: JsonObject = {key: value for key, value in where.items() if value is not None}
        return PatchError(
            self.code.removeprefix("patch."),
            str(self),
            next_action=self.next_action,
            facts={**known, **self.facts},
        )


def malformed(number: int, problem: str, fix: str | None = None) -> PatchError:
    """Return the error for a line of the patch that the format does not allow."""
    return PatchError(
        "malformed",
        f"Line {number} of the patch: {problem}",
        next_action=fix,
        facts={"patch_line": number},
    )


def shown(text: str) -> str:
    """Return a line as it may stand in an error: short, and without control characters."""
    short = text if len(text) <= LINE_MAX_CHARS else text[: LINE_MAX_CHARS - 1] + "…"
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in short
    )


def excerpt(lines: tuple[str, ...], around: int) -> list[str]:
    """Return numbered lines of a file around an index, from 0."""
    first = max(0, min(around - EXCERPT_LINES // 2, len(lines) - EXCERPT_LINES))
    return [
        f"{number + 1}: {shown(lines[number])}"
        for number in range(first, min(first + EXCERPT_LINES, len(lines)))
    ]
