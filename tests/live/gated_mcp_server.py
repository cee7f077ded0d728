"""The small MCP server, which only starts while a file is there.

Is: a program for its own process. Is not: imported by tests. Above: `world.py`.
Below: `tests/mcp_sdk_server.py`, which is run as it is.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    gate = Path(sys.argv.pop(1))
    if not gate.exists():
        sys.exit("The gate is closed.")
    runpy.run_path(str(Path(__file__).parents[1] / "mcp_sdk_server.py"), run_name="__main__")
