"""An extension whose tool leaves a line behind.

Is: the program of the service `extension` in the smoke test. Is not: imported by it. Above: the
container. Below: `toolrail.extension`.
"""

import asyncio
import os

from toolrail.extension import Extension
from toolrail.settings import Settings

EFFECTS = "/effects/extension.log"


def main() -> None:
    """Serve until SIGTERM."""
    extension = Extension("smoke", version="1.0", settings=Settings.from_env(), concurrency=50)

    @extension.tool("append", timeout_s=60)
    async def append(line: str, pause_s: float) -> str:
        """Append a line after a pause.

        Args:
            line: What.
            pause_s: How long before.
        """
        await asyncio.sleep(pause_s)
        descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)
        return "done"

    extension.run(patience_s=60.0)


if __name__ == "__main__":
    main()
