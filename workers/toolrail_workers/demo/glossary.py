"""An extension: tools that live in a process of their own and answer over Redis.

Is: what an extension author would write, and its main program. Is not: a worker.
Above: `show.py` starts it as a child. Below: `toolrail.extension`.
"""

import argparse

from toolrail.extension import Extension
from toolrail.settings import Settings
from toolrail.supervisor.ready import announce_ready

MEANINGS = {
    "fence": "a number that grows with every claim, so that a late worker is recognised",
    "ledger": "the truth about every call, in Redis",
    "lease": "the time for which a worker owns a call unless it renews it",
}


def make_glossary(settings: Settings) -> Extension:
    """Return the extension, not yet connected."""
    glossary = Extension("glossary", version="1.0", settings=settings)

    @glossary.tool("define", read_only=True)
    async def define(term: str) -> str:
        """Say what a word of this project means.

        Args:
            term: The word.
        """
        return f"{term}: {MEANINGS.get(term, 'not in this glossary')}"

    return glossary


def main() -> None:
    """Serve until SIGTERM; tell the supervisor when the tools are registered."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready-fd", type=int, required=True)
    ready_fd: int = parser.parse_args().ready_fd
    glossary = make_glossary(Settings.from_env())
    glossary.run(on_ready=lambda: announce_ready(ready_fd))


if __name__ == "__main__":
    main()
