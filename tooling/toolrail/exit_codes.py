"""Name the exit codes of the `toolrail` program.

Is: numbers that scripts and supervisors rely on, and what each means. Is not: which error has
which (`cli/failures.py`).
Above: the CLI, the supervisor, `toolrail worker`. Below: nothing.

`toolrail try` and `toolrail call` answer 0 to 3 by the result's error class; no other failure of
theirs uses 1 or 2: where another command says 1, theirs is 3.
"""

OK = 0
FAILED = 1
"""From a tool: recoverable. Else: one sentence on standard error says why."""
POLICY = 2
"""From a tool: refused by policy."""
SYSTEM = 3
"""From a tool: the run failed. Else: Toolrail itself could not answer."""
CONFLICT = 4
"""Asked again it is the same: what stands was there before."""
USAGE = 64
"""EX_USAGE; not 2, which is the answer of a policy."""
CONFIG = 78
"""EX_CONFIG: wrong however often one starts, so that supervisors do not."""
INTERRUPTED = 130
"""As shells count it."""

MEANINGS = {
    OK: "done",
    FAILED: "not done, not found, or a check failed",
    POLICY: "refused: by policy, or not by this person, or not like that",
    SYSTEM: "Redis or another part of Toolrail could not answer",
    CONFLICT: "something else stands already: decided, ended, or named so before",
    USAGE: "the command line is wrong",
    CONFIG: "a setting or a file that it names is wrong",
    INTERRUPTED: "Ctrl-C",
}
"""For `toolrail --help`."""
