"""List every metric that Toolrail exports, once.

Is: names, types, labels, buckets, units and help sentences. Is not: any value (`fleet.py` reads the
ledger's, `process.py` holds a process's own). Above: both of them, and what draws dashboards and
alerts. Below: `metric.py` with the shape, `labels.py`, `buckets.py`.

A metric that stands nowhere here cannot be exported, and its labels are closed: tests hold both.
A source is spelled as its queue, `builtin`, as on the wire, in policy and in commands; skill tools
count under it too, since they run there. "Built-in" is only what comes with Toolrail: its policy.
`ledger` metrics are counted by the ledger's scripts and exported once per cell; `process` metrics
are what only one process can see.
"""

from collections.abc import Mapping
from types import MappingProxyType

from toolrail.metrics import buckets, labels
from toolrail.metrics.metric import (
    Metric,
    Producer,
    ledger_counter,
    ledger_gauge,
    ledger_histogram,
    process_counter,
    process_gauge,
    process_histogram,
)

CALLS_ACCEPTED = ledger_counter(
    "toolrail_calls_accepted_total", "Calls that stand in the ledger.", labels.SOURCE
)
CALLS_FINISHED = ledger_counter(
    "toolrail_calls_finished_total",
    "Calls that have their one outcome.",
    labels.SOURCE,
    labels.OUTCOME,
)
CALLS_OPEN = ledger_gauge(
    "toolrail_calls_open", "Calls without an outcome, by state.", labels.SOURCE, labels.STATE
)
CALLS_UNACCOUNTED = ledger_gauge(
    "toolrail_calls_unaccounted",
    "Calls accepted minus finished minus open; anything but 0 means a call was lost or doubled.",
)
TOOL_CALLS = ledger_counter(
    "toolrail_tool_calls_total",
    "Calls that have their outcome, by tool; _other stands for tools nobody knows.",
    labels.SOURCE,
    labels.TOOL,
    labels.OUTCOME,
)
TOOL_DURATION = ledger_histogram(
    "toolrail_tool_duration_seconds",
    buckets.DURATION_S,
    "From a worker's start of a call to its result, by tool; lost attempts are left out.",
    labels.SOURCE,
    labels.TOOL,
)
CALL_DURATION = ledger_histogram(
    "toolrail_call_duration_seconds",
    buckets.DURATION_S,
    "From the acceptance of a call to its outcome, without the time a person took to decide.",
    labels.SOURCE,
    labels.OUTCOME,
)
QUEUE_WAIT = ledger_histogram(
    "toolrail_queue_wait_seconds",
    buckets.QUEUE_WAIT_S,
    "From the queueing of an attempt to its start.",
    labels.SOURCE,
)
QUEUE_DEPTH = ledger_gauge(
    "toolrail_queue_depth", "Calls that wait for a worker, by the ledger.", labels.QUEUE
)
QUEUE_DOORBELLS = ledger_gauge(
    "toolrail_queue_doorbells",
    "Messages that lie in the queue's list in Redis; 0 with another broker.",
    labels.QUEUE,
)
QUEUE_OLDEST_AGE = ledger_gauge(
    "toolrail_queue_oldest_age_seconds",
    "For how long the oldest queued call has waited, by the clock of Redis; 0 when none waits.",
    labels.QUEUE,
)
CALL_ATTEMPTS = ledger_counter(
    "toolrail_call_attempts_total",
    "Attempts that a worker started.",
    labels.SOURCE,
    labels.ATTEMPT_KIND,
)
LEASE_EXPIRED = ledger_counter(
    "toolrail_lease_expired_total",
    "Attempts whose worker stopped renewing its lease.",
    labels.SOURCE,
)
DOORBELLS_RERUNG = ledger_counter(
    "toolrail_doorbells_rerung_total", "Doorbells that were lost and rung again.", labels.SOURCE
)
LATE_RESULTS = ledger_counter(
    "toolrail_late_results_total",
    "Results of attempts that had been given up; they were refused.",
    labels.SOURCE,
)
DEAD_LETTER = ledger_counter(
    "toolrail_dead_letter_total", "Calls whose attempts were used up.", labels.SOURCE
)
DEAD_LETTERS = ledger_gauge(
    "toolrail_dead_letters", "Dead letters that nobody has redriven or discarded.", labels.SOURCE
)
DEAD_LETTERS_HANDLED = ledger_counter(
    "toolrail_dead_letters_handled_total",
    "Dead letters that an operator redrove or discarded.",
    labels.SOURCE,
    labels.DEAD_LETTER_ACTION,
)
APPROVALS_ASKED = ledger_counter(
    "toolrail_approvals_asked_total", "Calls that were parked for a person.", labels.SOURCE
)
APPROVALS_PENDING = ledger_gauge(
    "toolrail_approvals_pending", "Calls that wait for a person.", labels.SOURCE
)
APPROVAL_OLDEST_AGE = ledger_gauge(
    "toolrail_approval_oldest_age_seconds",
    "For how long the oldest parked call has waited for a person; 0 when none waits.",
    labels.SOURCE,
)
APPROVALS = ledger_counter(
    "toolrail_approvals_total",
    "Decisions about calls that need approval.",
    labels.SOURCE,
    labels.DECISION,
)
APPROVAL_WAIT = ledger_histogram(
    "toolrail_approval_wait_seconds",
    buckets.APPROVAL_WAIT_S,
    "From the parking of a call to the decision about it, whatever it was.",
    labels.SOURCE,
)
POLICY_DENIALS = ledger_counter(
    "toolrail_policy_denials_total",
    "Calls that policy denied, by the rule that decided; none stands for no rule that allows.",
    labels.LAYER,
    labels.RULE,
)
BUDGET_REJECTIONS = ledger_counter(
    "toolrail_budget_rejections_total", "Calls refused because a budget was used up.", labels.CAP
)
RUNS_OPENED = ledger_counter("toolrail_runs_opened_total", "Runs that were opened.")
RUNS_OPEN = ledger_gauge("toolrail_runs_open", "Runs that have not ended.")
JOURNAL_APPEND_ERRORS = ledger_counter(
    "toolrail_journal_append_errors_total", "Events that the journal refused; each fails its run."
)
STREAM_LENGTH = ledger_gauge(
    "toolrail_stream_length", "Entries of a stream that all runs share.", labels.STREAM
)
WORKERS = ledger_gauge("toolrail_workers", "Workers that are alive.", labels.QUEUE)
REDIS_UP = ledger_gauge("toolrail_redis_up", "Whether the exporter's last read succeeded.")
REDIS_PERSISTENCE_OK = ledger_gauge(
    "toolrail_redis_persistence_ok",
    "Whether Redis keeps an append-only file and its last writes to disk succeeded.",
)
REDIS_AOF_ENABLED = ledger_gauge(
    "toolrail_redis_aof_enabled", "Whether Redis keeps an append-only file."
)
REDIS_AOF_OK = ledger_gauge(
    "toolrail_redis_aof_ok", "Whether the last write to the append-only file succeeded."
)
REDIS_RDB_OK = ledger_gauge("toolrail_redis_rdb_ok", "Whether the last snapshot succeeded.")
REDIS_MEMORY_USED = ledger_gauge("toolrail_redis_memory_used_bytes", "Memory that Redis uses.")
REDIS_MEMORY_MAX = ledger_gauge(
    "toolrail_redis_memory_max_bytes", "Memory that Redis may use; 0 is no limit."
)
REDIS_EVICTED_KEYS = ledger_counter(
    "toolrail_redis_evicted_keys_total",
    "Keys that Redis dropped for lack of memory; anything but 0 means lost records.",
)
REDIS_CONNECTED_CLIENTS = ledger_gauge(
    "toolrail_redis_connected_clients", "Connections that Redis serves."
)
EXPORTER_LAST_SUCCESS = ledger_gauge(
    "toolrail_exporter_last_success_timestamp_seconds",
    "When the exporter last read everything; what it shows is as old as that.",
)

CALLS_REJECTED = process_counter(
    "toolrail_calls_rejected_total",
    "Calls that never stood in the ledger.",
    labels.SOURCE,
    labels.REJECTION,
)
WORKER_SLOTS = process_gauge(
    "toolrail_worker_slots", "Calls this worker may run at once, of all its queues.", labels.QUEUE
)
WORKER_SLOTS_BUSY = process_gauge(
    "toolrail_worker_slots_busy", "Calls this worker runs.", labels.QUEUE
)
WORKER_DRAINING = process_gauge(
    "toolrail_worker_draining", "Whether this worker claims no more calls.", labels.QUEUE
)
WORKER_LAST_PROGRESS = process_gauge(
    "toolrail_worker_last_progress_timestamp_seconds",
    "When this worker last popped a doorbell or found its queue empty.",
    labels.QUEUE,
)
WORKER_CALLS = process_counter(
    "toolrail_worker_calls_total",
    "Calls this worker ran to an outcome.",
    labels.QUEUE,
    labels.OUTCOME,
)
EVENT_LOOP_LAG = process_histogram(
    "toolrail_event_loop_lag_seconds",
    buckets.LAG_S,
    "How late this process's event loop comes to what is due.",
)
EVENT_LOOP_BLOCKED = process_gauge(
    "toolrail_event_loop_blocked_seconds",
    "How late this process's event loop is at this moment; 0 while it keeps up.",
)
MCP_SERVER_UP = process_gauge(
    "toolrail_mcp_server_up", "Whether the MCP server answers.", labels.SERVER
)
MCP_OPERATION_DURATION = process_histogram(
    "toolrail_mcp_operation_duration_seconds",
    buckets.MCP_S,
    "From a request to an MCP server to its answer.",
    labels.SERVER,
    labels.METHOD,
    labels.MCP_OUTCOME,
)
MCP_RESTARTS = process_counter(
    "toolrail_mcp_restarts_total",
    "Times an MCP server was started again.",
    labels.SERVER,
    labels.RESTART_REASON,
)
MCP_SESSIONS = process_gauge(
    "toolrail_mcp_sessions", "Open sessions with the MCP server.", labels.SERVER
)
MCP_INFLIGHT = process_gauge(
    "toolrail_mcp_inflight", "Requests the MCP server has not answered.", labels.SERVER
)
MCP_TOOLS_CHANGED = process_counter(
    "toolrail_mcp_tools_changed_total",
    "Times an MCP server's tools were not what they had been.",
    labels.SERVER,
)
EXTENSION_CONNECTIONS = process_gauge(
    "toolrail_extension_connections",
    "Live sessions of the extension that this worker hands calls to.",
    labels.EXTENSION,
)
EXTENSION_DISCONNECTS = process_counter(
    "toolrail_extension_disconnects_total",
    "Ends of sessions of the extension.",
    labels.EXTENSION,
    labels.DISCONNECT_REASON,
)
REDACTIONS = process_counter(
    "toolrail_redactions_total",
    "Texts from which something secret was taken, by what they were.",
    labels.REDACTION_KIND,
)
REDIS_COMMAND_DURATION = process_histogram(
    "toolrail_redis_command_duration_seconds",
    buckets.REDIS_S,
    "From a command of the ledger to its reply, as this process sees it, retries left out.",
    labels.OPERATION,
)
REDIS_ERRORS = process_counter(
    "toolrail_redis_errors_total",
    "Tries at a command of the ledger that failed.",
    labels.REDIS_ERROR_KIND,
)
ADMISSION_OPEN = process_gauge(
    "toolrail_admission_open", "Whether new calls are accepted; 0 is shedding load."
)
BUILD_INFO = process_gauge(
    "toolrail_build_info",
    "Always 1; says which code runs.",
    labels.VERSION,
    labels.COMMIT,
    labels.PYTHON,
    labels.CELERY,
)

METRICS: tuple[Metric, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
"""All of them, in the order of this file."""

BY_NAME: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in METRICS})


def produced_by(producer: Producer) -> tuple[Metric, ...]:
    """Return the metrics of one producer."""
    return tuple(metric for metric in METRICS if metric.producer == producer)
