"""Name the exit codes of the `toolrail` program.

Is: numbers that scripts and supervisors rely on. Is not: who exits with which.
Above: the CLI, the supervisor, `toolrail worker`. Below: nothing.

`toolrail try` and `toolrail call` answer 0 to 3 by the result's error class; no other failure of
theirs uses 1 or 2.
"""

OK = 0
FAILED = 1
"""A command failed; one sentence on standard error says why. From a tool: recoverable."""
POLICY = 2
"""From a tool: refused by policy."""
SYSTEM = 3
"""From a tool: the run failed. Else: Toolrail itself could not answer."""
CONFLICT = 4
"""A decision came to nothing: something else had decided before, or the call had ended."""
USAGE = 64
"""EX_USAGE: the command line is wrong; not 2, which is the answer of a policy."""
CONFIG = 78
"""EX_CONFIG: the settings are wrong, and stay wrong however often one starts."""
INTERRUPTED = 130
"""Ctrl-C, as shells count it."""
