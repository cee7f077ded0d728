"""`toolrail policy ...`: explain one decision, check a folder.

Is: the policy on a terminal, with or without a running cluster. Is not: the policy
(`toolrail.policy`).
Above: `main.py`. Below: `toolrail.policy`, `known_tools.py`.

Exit codes of `explain`: 0 the call may happen (perhaps after approval), 2 it may not.
"""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue, TypeAdapter, ValidationError

from toolrail import exit_codes
from toolrail.cli.arguments import read_arguments
from toolrail.cli.failures import tell_error
from toolrail.cli.known_tools import KnownTools, find_tools
from toolrail.cli.options import CommandExit, UsageError
from toolrail.cli.start import start
from toolrail.policy.dynamic import effects_of_arguments
from toolrail.policy.explain import Explanation, explain
from toolrail.policy.inputs import CORE_SURFACE, Facts
from toolrail.policy.load import PolicyFolder, inspect_policy, load_policy
from toolrail.policy.selectors import Effect
from toolrail.policy.unmatched import Unmatched, unmatched_selectors
from toolrail_schemas import Caller, ToolSpec, canonical_json

DEFAULT_PROFILE = "assistant"

app = typer.Typer(help="Explain what the policy decides and why.", no_args_is_help=True)

_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])

PolicyDir = Annotated[
    Path | None,
    typer.Option(help="Folder of policy files. [TOOLRAIL_POLICY_DIR, else the built-in one]"),
]


@app.command("explain")
def explain_tool(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help="Canonical name of the tool.")],
    *,
    profile: Annotated[str, typer.Option(help="Profile of the run.")] = DEFAULT_PROFILE,
    user: Annotated[str | None, typer.Option(help="Whose settings apply.")] = None,
    surface: Annotated[str, typer.Option(help="Surface of the run.")] = CORE_SURFACE,
    caller: Annotated[Caller, typer.Option(help="Who calls.")] = Caller.ASSISTANT,
    args: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE", help="Arguments, for tools they make dangerous."),
    ] = None,
    policy_dir: PolicyDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
) -> None:
    """Say what a caller may do with a tool, and why.

    Which layer and rule decided, and what was outvoted.

    Exit code: 0 the call may happen, perhaps after approval; 2 it may not; 1 there is no such tool.
    """
    settings = start(context)
    snapshot = load_policy(policy_dir or settings.policy_dir).snapshot(profile=profile, user=user)
    tools = find_tools(settings)
    known = tools.spec_of(tool)
    facts = Facts(source_available=known.available, dynamic=_effects(known.spec, args))
    told = explain(snapshot.ask(known.spec, caller=caller, surface=surface, facts=facts))
    if known.origin == "assumed":
        _note(f"nobody here knows {tool}; it is taken for an untrusted tool of that name.")
    _show(told, origin=known.origin, as_json=as_json)
    raise CommandExit(exit_codes.OK if told.decision.callable else exit_codes.POLICY)


@app.command("check")
def check_folder(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder to check. [TOOLRAIL_POLICY_DIR, else the built-in one]"),
    ] = None,
) -> None:
    """Read a policy folder and tell what is wrong.

    All of it at once; rules that no tool fits are warnings.

    Exit code: 0 nothing is wrong, warnings aside; 1 something is.
    """
    settings = start(context)
    chosen = folder or settings.policy_dir
    policies, problems = inspect_policy(chosen)
    for problem in problems:
        tell_error(problem)
    if policies is None:
        raise CommandExit(exit_codes.FAILED)
    if chosen is not None:
        # The built-in folder speaks of every tool that comes with Toolrail, installed or not.
        _warn(policies, find_tools(settings))
    typer.echo(f"{policies.where}: {_summary(policies)}")


def _effects(spec: ToolSpec, args: str | None) -> frozenset[Effect]:
    if args is None:
        return frozenset()
    try:
        arguments = _OBJECT.validate_json(read_arguments(args))
    except ValidationError:
        raise UsageError(
            "must be a JSON object.", fix='Write it like \'{"path": "a.txt"}\'.', key="--args"
        ) from None
    return effects_of_arguments(spec, arguments)


def _show(told: Explanation, *, origin: str, as_json: bool) -> None:
    if as_json:
        data: dict[str, JsonValue] = {**told.as_data(), "spec_from": origin}
        typer.echo(canonical_json(data).decode())
    else:
        typer.echo(told.as_text(), nl=False)


def _warn(policies: PolicyFolder, tools: KnownTools) -> None:
    found = unmatched_selectors(policies.layers(), tools.specs())
    if not tools.is_complete:
        found = tuple(unmatched for unmatched in found if not _is_foreign(unmatched))
        _note("no cluster answered, so rules for MCP servers and extensions were not looked up.")
    for unmatched in found:
        typer.secho(f"warning: {unmatched}", err=True, fg=typer.colors.YELLOW)


def _is_foreign(unmatched: Unmatched) -> bool:
    """Return whether only a registry could know a tool for this selector."""
    return ":" in unmatched.selector or unmatched.selector.startswith(("mcp.", "ext.", "*"))


def _summary(policies: PolicyFolder) -> str:
    layers = list(policies.layers())
    rules = [rule for layer in layers for rule in layer.rules]
    counts = {
        "profile": len(policies.profiles),
        "user": len(policies.users),
        "rule": len(rules),
        "example": sum(len(rule.match) + len(rule.not_match) for rule in rules),
    }
    parts = [f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items()]
    return f"{', '.join(parts)}; nothing is wrong"


def _note(text: str) -> None:
    typer.secho(f"note: {text}", err=True, dim=True)
