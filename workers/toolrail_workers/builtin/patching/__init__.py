"""Understand and compute a patch without touching a disk.

Is: two input formats, one matcher and the new content of each file, as pure functions. Is not:
paths of a workspace, locks or checkpoints (the layer above).
Above: `workspace.apply_patch`. Below: `toolrail.errors`.
"""
