"""List every error code a call can end with, and map policy reasons to codes.

Is: the table of semantics 7 and the mapping of 3.8(9). Is not: Python exceptions
(`toolrail/errors.py`).
Above: results, journal, policy, workers. Below: `_error_rows_tools.py`, `_error_rows_runtime.py`.
"""

from toolrail_schemas._error_info import ErrorClass, ErrorInfo
from toolrail_schemas._error_rows_runtime import RUNTIME_ROWS
from toolrail_schemas._error_rows_tools import TOOL_ROWS

__all__ = ["ERROR_CODES", "ErrorClass", "ErrorInfo", "error_info", "error_of_reason"]

ERROR_CODES: dict[str, ErrorInfo] = {info.code: info for info in (*TOOL_ROWS, *RUNTIME_ROWS)}
"""Every code we write ourselves. A tool may add its own codes; see `error_info`."""


def error_info(code: str) -> ErrorInfo:
    """Return what is known about a code; an unknown one, such as a tool's own, is recoverable."""
    known = ERROR_CODES.get(code)
    if known is not None:
        return known
    return ErrorInfo(code, ErrorClass.RECOVERABLE, "The tool failed.", "Read the message.")


_ERROR_OF_REASON: dict[str, str] = {
    "deny": "policy.denied",
    "platform.not_listed": "policy.denied",
    "plan.unlisted": "policy.plan_violation",
    "context.caller": "policy.caller_denied",
    "policy.not_allowed": "policy.not_allowed",
    "not_model_visible": "policy.not_allowed",
    "user_only": "policy.not_allowed",
    "catalog.surface": "policy.not_allowed",
    "catalog.deprecated": "policy.not_allowed",
    "budget.exhausted": "tool.budget_exhausted",
    "source.unavailable": "mcp.server_unavailable",
    "tool.not_loaded": "tool.not_loaded",
}
_HIDING_REASONS = frozenset(
    reason for reason, code in _ERROR_OF_REASON.items() if code == "policy.not_allowed"
)


def error_of_reason(reason: str) -> ErrorInfo:
    """Return the error a call ends with when the policy says no for `reason`.

    The codes that share `policy.not_allowed` speak to the model in the words of `tool.not_found`,
    so that nobody can probe for hidden tools; the journal keeps the reason itself.

    Raises:
        KeyError: `reason` is no refusal, `allowed` for example.
    """
    return ERROR_CODES[_ERROR_OF_REASON[reason]]
