"""Run tool code where it can be stopped.

Is: `process.py`, a bounded pool of child processes that are really killed, with all they started;
`thread.py`, a bounded runner for our own blocking code, which cannot be. Is not: which tool runs
where (`Isolation` of the tool), nor what a result becomes (`execute.py`).
Above: executors. Below: the operating system. Start reading at `process.py`.

The child's side (`guard.py`, `child.py`) loads nothing of Toolrail but `framing.py` and what it is
told to preload, so this file must stay free of imports.
"""
