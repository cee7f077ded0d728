"""Run the tools of source `builtin`: ours, and those a team wrote with `@tool`.

Is: `executor.py`, and the workspace tools (`workspace.py`) with what is under them, from the
bottom: `faults.py` and `paths.py` (text only), `walk.py` and `files.py` (descriptors), `locks.py`
and `versions.py` (the run's memory), `run_workspace.py` (all of it together), then one module per
tool. Start reading at `workspace.py`. Is not: MCP or extension tools.
Above: `toolrail_workers.runtime`. Below: `toolrail.tools`, `isolation/`.
"""
