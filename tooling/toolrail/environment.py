"""Read the environment of this process: the one line that does.

Is: `environ`, apart from the settings because a health check that runs every few seconds cannot
afford their imports (0.3 s). Is not: what a variable means. Above: `settings.py`, which is the way
for everybody else; `cli/health.py`. Below: the standard library.
"""

import os


def environ() -> dict[str, str]:
    """Return a copy of all variables."""
    return dict(os.environ)  # noqa: TID251  # the one reader of the environment
