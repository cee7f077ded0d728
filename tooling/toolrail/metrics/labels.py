"""The labels of all metrics and the values they may have.

Is: the closed set of label names, and for each use its values or what bounds them. Is not: the
metrics (`catalogue.py`). Above: the catalogue. Below: the schemas; the words of the ledger are
spelled again, and held to it by a test, since the ledger itself is measured.

Never a label: tenant, user, run, call, session, URL, worker host, exception text. They have no
bound, and belong to the journal and the log.
"""

from dataclasses import dataclass

from toolrail_schemas import Layer

LABEL_NAMES = frozenset(
    {
        "source",
        "state",
        "outcome",
        "tool",
        "kind",
        "action",
        "decision",
        "layer",
        "rule",
        "cap",
        "stream",
        "reason",
        "server",
        "method",
        "extension",
        "op",
        "version",
        "commit",
        "python",
        "celery",
    }
)
"""All label names there are; adding one is a decision about cardinality."""

QUEUES = ("builtin", "mcp", "extension")
NOBODY = "none"
"""The source of calls of tools nobody knows."""
SOURCES = (*QUEUES, NOBODY)
OTHER = "_other"
"""Stands for all values that have no place of their own."""
TOOLS_MAX = 500
"""Tools with a label of their own, over all sources; the ledger gives it to them, for good."""
RULES_MAX = 100
"""Rules of one layer with a label of their own; plan nodes come with runs, unbounded."""


@dataclass(frozen=True, slots=True)
class Label:
    """One label of one metric.

    Attributes:
        name: One of `LABEL_NAMES`.
        values: All values, each pre-set to 0; empty when configuration bounds them.
        bound: What bounds the values when they are not listed.
    """

    name: str
    values: tuple[str, ...] = ()
    bound: str = ""


SOURCE = Label("source", SOURCES)
QUEUE = Label("source", QUEUES)
"""Of what exists only for queues that somebody serves."""
STATE = Label("state", ("queued", "awaiting_approval", "running"))
OUTCOME = Label(
    "outcome",
    (
        *("ok", "tool_error", "denied", "approval_expired", "over_budget"),
        *("timeout", "cancelled", "system_error", "lost"),
    ),
)
TOOL = Label("tool", bound=f"names known to a dispatcher, {TOOLS_MAX} of them, then {OTHER}")
ATTEMPT_KIND = Label("kind", ("first", "retried"))
DEAD_LETTER_ACTION = Label("action", ("redriven", "discarded"))
DECISION = Label(
    "decision", ("approved", "denied", "expired", "cancelled", "superseded", "remembered")
)
LAYER = Label("layer", (*Layer, NOBODY))
RULE = Label("rule", bound=f"rules of policies, {RULES_MAX} of a layer, then {OTHER}")
CAP = Label("cap", ("run", "turn"))
STREAM = Label("stream", ("journal",))
REJECTION = Label(
    "reason",
    ("invalid", "too_large", "duplicate_conflict", "run_closed", "overload", "unavailable"),
)
SERVER = Label("server", bound="names in the MCP servers file")
METHOD = Label("method", ("initialize", "tools/list", "tools/call", "ping", OTHER))
MCP_OUTCOME = Label("outcome", ("ok", "tool_error", "timeout", "cancelled", "system_error"))
RESTART_REASON = Label("reason", ("exit", "hang", "flood", "protocol"))
EXTENSION = Label("extension", bound="names of registered extensions")
DISCONNECT_REASON = Label("reason", ("left", "lost", "replaced", "protocol"))
REDACTION_KIND = Label("kind", ("words", "said", "journal", "arguments"))
"""What the secret stood in; see `toolrail.redaction.counts`."""
OPERATION = Label(
    "op",
    (
        *("open_run", "dispatch", "approve", "ask_again", "claim", "renew", "finish"),
        *("cancel", "requeue", "ring", "end_run", "append", "parked", "letter", "retire"),
        OTHER,
    ),
)
"""The ledger's scripts; whatever else is measured counts as other."""
REDIS_ERROR_KIND = Label(
    "kind", ("timeout", "conn", "oom", "misconf", "readonly", "noscript", "other")
)
VERSION = Label("version", bound="one per process")
COMMIT = Label("commit", bound="one per process")
PYTHON = Label("python", bound="one per process")
CELERY = Label("celery", bound="one per process")
