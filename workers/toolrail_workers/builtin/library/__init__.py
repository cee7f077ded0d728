"""Let a run read what is no file of its workspace: its chat, skills, world info.

Is: `chat.py`, `skill.py`, `worldinfo.py` (the tools as a model sees them), `library.py` (what one
call may read), `facts.py` (what was decided for a run) and one module per noun. All of it only
reads. Start reading at `chat.py`. Is not: the stores (`toolrail.chat`) or the workspace.
Above: `builtin/executor.py`. Below: `toolrail.chat`, `walk.py`.
"""
