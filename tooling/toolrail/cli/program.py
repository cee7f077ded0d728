"""Start the `toolrail` program: a health check at once, everything else with its libraries.

Is: the one shortcut. Is not: the command line (`main.py`), where `health` stands too, for its help.
Above: the console script and `python -m toolrail`. Below: `health.py`, `main.py`.

Measured: a health check takes 0.03 s this way, and 0.3 s through the command line; six containers
that ask every five seconds would use a third of a core for it.
"""

import importlib
import sys

from toolrail.cli.health import ALIVE, READY, check
from toolrail.exit_codes import INTERRUPTED

QUICK: dict[tuple[str, ...], str] = {("health",): ALIVE, ("health", "--ready"): READY}


def main() -> None:
    """Run the command line of this process and end it with the command's exit code."""
    path = QUICK.get(tuple(sys.argv[1:]))
    if path is not None:
        sys.exit(check(path))
    try:
        importlib.import_module("toolrail.cli.main").main()
    except KeyboardInterrupt:
        # While the libraries were loaded; from then on `main.py` catches it.
        sys.exit(INTERRUPTED)
