"""Read what a user gives as arguments of a tool.

Is: JSON from the command line, a file or standard input. Is not: the check of it
(`toolrail.validation`).
Above: `call`, `try`. Below: the file system.
"""

import sys
from pathlib import Path

from toolrail.cli.options import UsageError


def read_arguments(text: str, *, key: str = "--args") -> str:
    """Return the JSON text that `JSON`, `@FILE` or `@-` stands for, unread.

    Args:
        text: As the user gave it.
        key: The option it was given with.

    Raises:
        UsageError: The file cannot be read.
    """
    if not text.startswith("@"):
        return text
    if text == "@-":
        return sys.stdin.read()
    file = Path(text[1:])
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        fix = "Name a file with a JSON object, or write the object itself."
        raise UsageError(f"{file} cannot be read: {reason}.", fix=fix, key=key) from None
