"""Run tool code where it can be stopped.

Holds: `process.py`, a bounded pool of child processes that are really killed, with all they
started; `thread.py`, a bounded runner for our own blocking code, which cannot be. Is not: which
tool runs where (`Isolation` of the tool), nor what a result becomes (`execute.py`).
Start reading at `process.py`. The child's side (`guard.py`, `child.py`) imports no Toolrail code
but `framing.py`, so this package must stay free of imports.
"""
