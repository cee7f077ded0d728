"""Spell every Redis key, once.

Is: the patterns of DESIGN 2.1 and which of them are permanent. Is not: who writes them (each Lua
file lists the keys it touches). Above: the ledger, the registry, the worker. Below: nothing.
"""

from dataclasses import dataclass

PERMANENT: tuple[str, ...] = (
    "journal:all",
    "queued:*",
    "leases",
    "deadlines",
    "approvals",
    "asked:*",
    "runs",
    "ending",
    "ended",
    "dead_letters",
    "rings",
    "totals",
    "totals:tools",
    "totals:rules",
    "registry:version",
    "builtin",
    "mcp",
    "extension",
    "_kombu.binding.*",
)
"""Keys without a TTL, as globs after the prefix. Every other key has one after its run's end."""


def is_run_id(text: str) -> bool:
    """Return whether a text is shaped like a run id, and so may be spelled into a key."""
    return text.isascii() and text.startswith("run_") and len(text) == 30 and text[4:].isalnum()


@dataclass(frozen=True, slots=True)
class Keys:
    """Redis keys under one prefix, such as `toolrail:`."""

    prefix: str

    def run(self, run_id: str) -> str:
        """Return the hash of one run."""
        return f"{self.prefix}run:{run_id}"

    def call(self, run_id: str, call_key: str) -> str:
        """Return the hash of one call."""
        return f"{self.prefix}run:{run_id}:call:{call_key}"

    def call_of(self, member: str) -> str:
        """Return the hash of the call that a zset names as `run|call`."""
        run_id, _, call_key = member.partition("|")
        return self.call(run_id, call_key)

    def reads(self, run_id: str) -> str:
        """Return the hash of what one run may still read, and how much of its chat exists."""
        return f"{self.prefix}run:{run_id}:reads"

    def journal(self, run_id: str) -> str:
        """Return the stream whose entry ids are the sequence numbers of one run."""
        return f"{self.prefix}run:{run_id}:journal"

    def open_calls(self, run_id: str) -> str:
        """Return the set of call keys that have no outcome yet."""
        return f"{self.prefix}run:{run_id}:open"

    def run_approvals(self, run_id: str) -> str:
        """Return the zset of a run's parked calls by expiry, ms."""
        return f"{self.prefix}run:{run_id}:approvals"

    def run_name(self, tenant_digest: str, name: str) -> str:
        """Return the index from a tenant's own name for a run to its id."""
        return f"{self.prefix}run_name:{tenant_digest}:{name}"

    def inbox(self, client: str) -> str:
        """Return the stream of outcomes for one client process."""
        return f"{self.prefix}inbox:{client}"

    def nudge(self, worker: str) -> str:
        """Return the stream of cancel hints for one worker."""
        return f"{self.prefix}nudge:{worker}"

    def queued(self, queue: str) -> str:
        """Return the zset of queued calls by ring number."""
        return f"{self.prefix}queued:{queue}"

    def asked(self, queue: str) -> str:
        """Return the zset of a queue's parked calls by when they were parked, ms."""
        return f"{self.prefix}asked:{queue}"

    def queue(self, queue: str) -> str:
        """Return the list of doorbells that kombu pops from."""
        return f"{self.prefix}{queue}"

    def blob(self, sha256: str) -> str:
        """Return the string of one large argument or result."""
        return f"{self.prefix}blob:{sha256}"

    def policy(self, policy_hash: str) -> str:
        """Return the string of one frozen policy snapshot."""
        return f"{self.prefix}policy:{policy_hash}"

    def registry(self, queue: str, owner: str) -> str:
        """Return the hash of what an owner offers: worker to its state and a blob of specs."""
        return f"{self.prefix}registry:{queue}:{owner}"

    def tools(self, digest: str) -> str:
        """Return the hash of the tools that some worker can run: name to spec hash."""
        return f"{self.prefix}tools:{digest}"

    def registry_owners(self, queue: str) -> str:
        """Return the zset of a queue's owners by expiry, ms."""
        return f"{self.prefix}registry:{queue}"

    def live(self, queue: str, owner: str) -> str:
        """Return the zset of the workers that can execute an owner's tools, by expiry, ms."""
        return f"{self.prefix}live:{queue}:{owner}"

    def extension(self, name: str) -> str:
        """Return the hash of what one extension registered last: version, tools, digest."""
        return f"{self.prefix}ext:{name}"

    def extension_session(self, name: str) -> str:
        """Return the hash of an extension's one session; it exists while the session is alive."""
        return f"{self.prefix}ext:{name}:session"

    def extension_calls(self, name: str, session: str) -> str:
        """Return the stream of execute and cancel messages to one session."""
        return f"{self.prefix}ext:{name}:{session}:calls"

    def extension_replies(self, worker: str) -> str:
        """Return the stream of extensions' answers to one worker."""
        return f"{self.prefix}ext_replies:{worker}"

    def worker(self, worker: str) -> str:
        """Return the hash that one worker keeps of itself; it expires."""
        return f"{self.prefix}worker:{worker}"

    def drain(self, worker: str) -> str:
        """Return the string that asks one worker to claim no more; it expires."""
        return f"{self.prefix}drain:{worker}"

    @property
    def workers(self) -> str:
        """The zset of workers by the expiry of their records, ms."""
        return f"{self.prefix}workers"

    @property
    def extensions(self) -> str:
        """The zset of extensions that ever registered, by the end of their listing, ms."""
        return f"{self.prefix}extensions"

    @property
    def extension_changes(self) -> str:
        """The stream of hints that an extension came, is leaving or went."""
        return f"{self.prefix}ext_changes"

    @property
    def registry_version(self) -> str:
        """The counter that moves whenever a registry entry changes."""
        return f"{self.prefix}registry:version"

    @property
    def journal_all(self) -> str:
        """The stream of (run, seq, type, call_key) over all runs."""
        return f"{self.prefix}journal:all"

    @property
    def leases(self) -> str:
        """The zset of running calls by lease end, ms."""
        return f"{self.prefix}leases"

    @property
    def deadlines(self) -> str:
        """The zset of waiting calls by deadline, ms."""
        return f"{self.prefix}deadlines"

    @property
    def approvals(self) -> str:
        """The zset of parked calls by expiry, ms."""
        return f"{self.prefix}approvals"

    @property
    def runs(self) -> str:
        """The zset of open runs by last activity, ms."""
        return f"{self.prefix}runs"

    @property
    def ending(self) -> str:
        """The zset of runs that wait for their last call to end."""
        return f"{self.prefix}ending"

    def calls(self, run_id: str) -> str:
        """Return the set of call keys of a run, until they have a TTL."""
        return f"{self.prefix}run:{run_id}:calls"

    @property
    def ended(self) -> str:
        """The zset of ended runs whose many calls still need a TTL."""
        return f"{self.prefix}ended"

    @property
    def dead_letters(self) -> str:
        """The zset of calls whose attempts are used up."""
        return f"{self.prefix}dead_letters"

    @property
    def totals(self) -> str:
        """The hash of fleet counters."""
        return f"{self.prefix}totals"

    @property
    def totals_tools(self) -> str:
        """The hash of counters by tool, with a bounded number of names."""
        return f"{self.prefix}totals:tools"

    @property
    def totals_rules(self) -> str:
        """The hash of denials by layer and rule, with a bounded number of names."""
        return f"{self.prefix}totals:rules"

    @property
    def reaper_leader(self) -> str:
        """The string that names the one reaper at work; it expires."""
        return f"{self.prefix}reaper:leader"
