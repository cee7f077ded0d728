"""Run one tool here and now, for its author: `toolrail try`.

Is: the way of a call without queue, ledger and worker: judged by the same function, run by the
same executor, answered by the same code. Is not: a cluster; nothing is journaled, approved by
anybody, or counted.
Above: `commands.py`. Below: `toolrail.judgement`, the builtin executor, `running.py`, `answers.py`.
"""

import asyncio
import math
import os
import sys
import tempfile
import time
from pathlib import Path

import typer

from toolrail.cli.arguments import read_arguments
from toolrail.cli.failures import answering
from toolrail.cli.options import CommandExit, UsageError
from toolrail.cli.show import exit_code_of, result_text
from toolrail.cli.start import options_of, start
from toolrail.discovery import DiscoveredTools, discover_tools
from toolrail.entry import DEFAULT_OUTPUT_BYTES
from toolrail.errors import InvalidArguments
from toolrail.judgement import Asked, judge
from toolrail.ledger import Held
from toolrail.policy.layers import Layers, UserLayer
from toolrail.policy.load import load_policy
from toolrail.policy.snapshot import PolicySnapshot
from toolrail.registry import RegisteredTool
from toolrail.settings import Settings
from toolrail.tools import Tool, ToolContext
from toolrail.validation import ArgumentValidators, parse_arguments
from toolrail_schemas import (
    BudgetDecision,
    Caller,
    JsonObject,
    RunSpec,
    ToolResult,
    call_key,
    format_run_id,
    queue_of,
    sha256_hex,
)
from toolrail_workers.answers import Answers, Spent
from toolrail_workers.builtin.executor import OWNER, BuiltinExecutor, BuiltinLimits
from toolrail_workers.builtin.library.facts import LocalFacts, RunFacts
from toolrail_workers.builtin.library.stores import open_stores
from toolrail_workers.executor import ClaimedCall
from toolrail_workers.running import Running

CALL_ID = "try"
NOBODYS_PROFILE = "none"
EVERYTHING = Layers(user=UserLayer(allow=("*",), waive=("*",)))
"""The policy when no profile is named: an author tries a tool that no profile knows yet."""


def run_trial(
    context: typer.Context,
    *,
    name: str,
    workspace: Path | None,
    args: str,
    profile: str | None,
    chat: str | None,
    as_json: bool,
) -> None:
    """Try a tool and print its result.

    Raises:
        CommandExit: Always: 0 fine, 1 recoverable, 2 policy, 3 system, 64 the workspace is no
            folder, 78 settings or profile cannot be used.
    """
    with answering(options_of(context)):
        settings = start(context, joins_cluster=False)
        arguments = read_arguments(args)
        if workspace is not None and not workspace.is_dir():
            fix = "Name a folder with input/, output/ and so on, or leave it out for an empty one."
            raise UsageError(f"{workspace} is no folder.", fix=fix, key="--workspace")
        # Like `python -m`: a tool author's module lies where he stands.
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        with tempfile.TemporaryDirectory(prefix="toolrail-try-") as scratch:
            place = Path(scratch) / "workspace" if workspace is None else workspace.absolute()
            policy = policy_of(settings, profile)
            trial = Trial(settings, place=place, policy=policy, profile=profile, chat=chat)
            result = asyncio.run(trial.run(name, arguments))
    for note in trial.notes:
        typer.secho(note, err=True, dim=True)
    typer.echo(result.model_dump_json(indent=2) if as_json else result_text(result))
    raise CommandExit(exit_code_of(result))


def policy_of(settings: Settings, profile: str | None) -> PolicySnapshot:
    """Return the policy to ask: that of a profile, or one that allows everything.

    Raises:
        ConfigError: The policy folder or the profile cannot be used.
    """
    if profile is None:
        return PolicySnapshot(EVERYTHING)
    return load_policy(settings.policy_dir).snapshot(profile=profile)


class Trial:
    """One tool's call, from its arguments to its result."""

    def __init__(
        self,
        settings: Settings,
        *,
        place: Path,
        policy: PolicySnapshot,
        profile: str | None,
        chat: str | None = None,
    ) -> None:
        self._settings = settings
        self._facts = LocalFacts(chat=chat)
        self._place = place
        self._policy = policy
        self._profile = profile or NOBODYS_PROFILE
        self.notes: list[str] = []
        """What the author should know, and a model would not be told."""

    async def run(self, name: str, arguments: str) -> ToolResult:
        """Return what a model would be answered."""
        found = discover_tools(modules=self._settings.tool_modules)
        tool = found.tools.get(name)
        problem, parsed = None, None
        try:
            parsed = parse_arguments(arguments)
        except InvalidArguments as error:
            problem = error
        judgement = judge(
            Asked(CALL_ID, name, parsed, problem, Caller.ASSISTANT, 0),
            None if tool is None else registered(tool),
            run=RunSpec(profile=self._profile),
            policy=self._policy,
            validators=ArgumentValidators(),
        )
        if judgement.result is not None:
            if judgement.decision is not None and judgement.denied is not None:
                self.notes.append(f"policy: {judgement.denied['policy_reason']}")
            return judgement.result
        if tool is None or judgement.decision is None or parsed is None:
            raise RuntimeError("a call that is not refused has a tool, a decision and arguments")
        return await self._execute(found, tool, parsed, judgement.decision.budget)

    async def _execute(
        self, found: DiscoveredTools, tool: Tool, arguments: JsonObject, budget: BudgetDecision
    ) -> ToolResult:
        # Only the wanted tool: no child is started for the sake of another one.
        alone = DiscoveredTools({tool.spec.name: tool}, found.broken)
        executor = OnePlace(alone, self._place, self._settings, self._facts)
        call = self._claimed(tool, arguments, budget)
        await executor.start(lambda: None)
        began_at = time.monotonic()
        try:
            running = Running(Held(call.run_id, call.call_key, call.fence), lease_until=math.inf)
            ended = await running.work(
                executor.execute(call, self._context(call)), timeout_s=call.timeout_s
            )
        finally:
            await executor.stop()
        spent = Spent(queue_ms=0, duration_ms=int((time.monotonic() - began_at) * 1000), attempts=1)
        answer = Answers().of_ended(
            call, tool.spec, ended, stopped=running.stop_reason, spent=spent
        )
        for spill in answer.spills:
            await self.put_blob(spill.data, spill.mime)
        return answer.result

    async def put_blob(self, data: bytes, mime: str) -> str:
        """Take what a tool stores; nothing but a note of it is kept."""
        sha256 = sha256_hex(data)
        self.notes.append(f"stored, not kept: {len(data)} bytes of {mime}, sha256 {sha256}")
        return sha256

    def _claimed(self, tool: Tool, arguments: JsonObject, budget: BudgetDecision) -> ClaimedCall:
        run_id = format_run_id(time.time_ns() // 1_000_000, os.urandom(10))
        return ClaimedCall(
            run_id=run_id,
            call_key=call_key(run_id, 0, CALL_ID),
            call_id=CALL_ID,
            tool=tool.spec.name,
            source=tool.spec.source,
            spec_hash=tool.spec.spec_hash,
            arguments=arguments,
            attempt=1,
            fence=1,
            caller=Caller.ASSISTANT,
            tenant="default",
            profile=self._profile,
            turn=0,
            timeout_s=budget.timeout_ms / 1000,
            max_output_bytes=budget.max_output_bytes or DEFAULT_OUTPUT_BYTES,
            max_output_tokens=budget.max_output_tokens,
            policy_hash=self._policy.policy_hash,
            client="try",
        )

    def _context(self, call: ClaimedCall) -> ToolContext:
        return ToolContext(
            run_id=call.run_id,
            call_key=call.call_key,
            call_id=call.call_id,
            tool=call.tool,
            attempt=call.attempt,
            fence=call.fence,
            caller=call.caller,
            tenant=call.tenant,
            deadline=time.monotonic() + call.timeout_s,
            max_output_tokens=call.max_output_tokens,
            max_output_bytes=call.max_output_bytes,
            store=self,
            on_progress=_tell_progress,
        )


class OnePlace(BuiltinExecutor):
    """The builtin executor with one folder as the workspace of whatever run."""

    def __init__(
        self, found: DiscoveredTools, place: Path, settings: Settings, facts: RunFacts
    ) -> None:
        limits = BuiltinLimits(
            threads=settings.thread_slots,
            children=1,
            calls_per_child=settings.process_child_calls,
            child_memory_bytes=settings.process_memory_bytes,
        )
        super().__init__(
            found=found,
            workspace_root=place.parent,
            limits=limits,
            stores=open_stores(settings, facts),
        )
        self._place = place

    def _place_of(self, run_id: str) -> Path:
        return self._place


def registered(tool: Tool) -> RegisteredTool:
    """Return the tool as the registry would list it."""
    return RegisteredTool(tool.spec, queue_of(tool.spec.source), OWNER, available=True, reason="")


def _tell_progress(share: float, message: str) -> None:
    typer.secho(f"{share:4.0%} {message}".rstrip(), err=True, dim=True)
