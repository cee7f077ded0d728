"""Say in words what went wrong with an extension's call.

Is: the errors of semantics 7, rows 32, 33, 39, 40, as they read for extensions. Is not: the choice
among them (`executor.py`, `reading.py`). Above: both. Below: `toolrail.tools`.
"""

from toolrail.tools import ToolError


def unavailable(extension: str, *, sent: bool = False) -> ToolError:
    """Return the error for an extension that is not there.

    Args:
        extension: Its name.
        sent: Whether the call had reached it, which only a repeatable one may admit.
    """
    what = "went away during the call" if sent else "is not connected; the call was not made"
    return ToolError(
        "extension.unavailable",
        f"The extension {extension!r} {what}.",
        next_action="Continue without it, or ask the user to connect it.",
    )


def overloaded(extension: str, *, queued: bool = False) -> ToolError:
    """Return the error for a call that was not made because of others.

    Args:
        extension: Its name.
        queued: Whether the call had waited for its turn, and its time was over first.
    """
    what = "did not get to the call in its time" if queued else "is busy with other calls"
    return ToolError(
        "extension.overloaded",
        f"The extension {extension!r} {what}; it was not made.",
        next_action="Call again later, with fewer calls at once.",
    )


def too_slow(extension: str, timeout_s: float) -> ToolError:
    """Return the error for a call that was not answered in its time."""
    return ToolError(
        "tool.timeout",
        f"The extension {extension!r} did not answer within {timeout_s:g} s and was told to stop.",
    )


def outcome_unknown(extension: str) -> ToolError:
    """Return the error for a call whose extension went away while its function was at work."""
    return ToolError(
        "tool.outcome_unknown",
        f"The extension {extension!r} went away during the call. "
        "The tool may or may not have done its work.",
        next_action="Check whether the effect happened before you do anything again.",
    )


def invalid_output(what: str) -> ToolError:
    """Return the error for an answer that is not one."""
    return ToolError(
        "tool.invalid_output",
        f"The tool answered {what}.",
        next_action="Try another way; repeating the same call will hardly help.",
    )


def too_large(what: str) -> ToolError:
    """Return the error for an answer over a limit."""
    return ToolError(
        "tool.output_too_large",
        f"The tool answered {what}.",
        next_action="Ask for less, for example a smaller range.",
    )
