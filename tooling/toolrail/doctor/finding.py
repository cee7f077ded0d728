"""Say what was looked at, what was seen, and what to do.

Is: one value. Is not: a check. Above: every check, the command. Below: nothing.
"""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    """It works as it is, but somebody should know."""
    FAIL = "fail"
    """It does not work, or will not for long."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: How bad it is.
        subject: What was looked at, in one word.
        seen: What was seen, in a sentence.
        fix: What to do; "" when there is nothing to do.
    """

    level: Level
    subject: str
    seen: str
    fix: str = ""


def ok(subject: str, seen: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(Level.OK, subject, seen)


def warn(subject: str, seen: str, fix: str) -> Finding:
    """Return a finding that somebody should know of."""
    return Finding(Level.WARN, subject, seen, fix)


def fail(subject: str, seen: str, fix: str) -> Finding:
    """Return a finding that something has to be done about."""
    return Finding(Level.FAIL, subject, seen, fix)
