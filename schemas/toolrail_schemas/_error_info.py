"""Define what is known about one error code.

Is: `ErrorClass` and `ErrorInfo`, apart so that the rows and their readers can share them.
Is not: the rows (`_error_rows_*.py`) or the lookups (`errors.py`).
Above: `errors.py`. Below: the standard library.
"""

from dataclasses import dataclass
from enum import StrEnum


class ErrorClass(StrEnum):
    """Who is hurt by an error: the call, the permission, or the run."""

    RECOVERABLE = "recoverable"
    POLICY_DENIED = "policy_denied"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """One code, its class and its words."""

    code: str
    error_class: ErrorClass
    sentence: str
    """What happened, for a model: no path of the host, no stack trace."""
    remedy: str
    """What to do next, for a model."""
    row: int | None = None
    """Row of the table in semantics 7; null for codes the runtime adds."""
