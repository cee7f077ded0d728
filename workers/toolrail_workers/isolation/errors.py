"""What a call in a child process can end with, besides a value.

Is: errors that every executor may let through: each is already a result code. Is not: what
becomes of a lost effect; `execute.py` may turn a death or a timeout into `tool.outcome_unknown`.
Above: `process.py` raises them, executors catch them. Below: `toolrail.errors`.
"""

import signal

from toolrail.errors import SystemFailure, ToolError


class ChildDied(ToolError):
    """The tool's process died under the call; what it had done by then is not known.

    Attributes:
        exit_code: What the process ended with; minus the signal that killed it.
    """

    def __init__(self, exit_code: int) -> None:
        super().__init__(
            "tool.execution_failed",
            f"The process of this tool died during the call ({_describe(exit_code)}).",
            next_action="Do not repeat the same call unchanged; use another way.",
        )
        self.exit_code = exit_code
        self.args = (exit_code,)


class ChildTimeout(ToolError):
    """The call did not end in time; its process and all it had started were killed."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(
            "tool.timeout",
            f"The tool did not finish within {timeout_s:g} seconds and was stopped.",
            next_action="Ask for less at once, or use another tool.",
        )
        self.args = (timeout_s,)


class ToolRaised(ToolError):
    """The tool raised an exception that its author did not mean for a model.

    What it said stays out: it may name paths of the host and secrets. An author who wants to
    speak to the model raises a `ToolError`.

    Attributes:
        exception_type: Name of its class, such as `ValueError`.
    """

    def __init__(self, exception_type: str) -> None:
        super().__init__(
            "tool.execution_failed",
            f"The tool failed: {exception_type}." if exception_type else "The tool failed.",
            next_action="Change the call, or use another way; "
            "the same call will likely fail again.",
        )
        self.exception_type = exception_type
        self.args = (exception_type,)


class OutputTooLarge(ToolError):
    """The result is larger than may be stored; it was refused inside the child.

    Attributes:
        size_bytes: How large the result was.
        limit_bytes: How large it may be.
    """

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            "tool.output_too_large",
            f"The result has {size_bytes} bytes; at most {limit_bytes} can be stored.",
            next_action="Ask for a part of it.",
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        self.args = (size_bytes, limit_bytes)


class InvalidOutput(ToolError):
    """The tool returned something that has no JSON form."""

    def __init__(self, reason: str) -> None:
        super().__init__("tool.invalid_output", f"The result has no JSON form: {reason}")
        self.args = (reason,)


class ToolNotLoaded(SystemFailure):
    """The function could not be imported in the child; the worker's log has the trace."""

    def __init__(self, target: str, exception_type: str) -> None:
        super().__init__(
            "tool.internal_error", f"{target} cannot be imported in a child: {exception_type}"
        )
        self.args = (target, exception_type)


class ChildUnavailable(SystemFailure):
    """No child process could be started; the worker's log has the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__("tool.internal_error", f"No child process could be started: {reason}")
        self.args = (reason,)


def _describe(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"
