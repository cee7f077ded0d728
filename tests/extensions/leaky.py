"""An extension that spills its arguments and its own secrets.

Is: a program of its own, `python -m tests.extensions.leaky`. Is not: a double. Above:
`test_planted_secrets.py`. Below: `toolrail.extension`.
"""

import argparse
import logging
from functools import partial

from tests import planted
from toolrail.extension import Extension
from toolrail.settings import Settings
from toolrail.supervisor.ready import announce_ready

library = logging.getLogger("some.library")


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready-fd", type=int)
    given = parser.parse_args()
    leaky = Extension("leaky", version="1.0", settings=Settings.from_env())

    @leaky.tool(read_only=True)
    def spill(token: str) -> str:
        """Log and raise everything."""
        library.warning("%s %s", planted.LOGGED_IN_EXTENSION.text, token)
        raise ValueError(f"{planted.RAISED_IN_EXTENSION.text} {token}")

    ready = None if given.ready_fd is None else partial(announce_ready, given.ready_fd)
    leaky.run(patience_s=30, on_ready=ready)


if __name__ == "__main__":
    main()
