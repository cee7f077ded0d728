"""Tell a person why the policy decides as it does, with everything that was outvoted.

Is: the decision, the deciding layer and rule, and every other voice with what became of it, as data
and as plain text. Is not: a second resolver; it reads the findings that `resolve` concludes from.
Above: `toolrail policy explain`, console, gateway. Below: `findings.py`, `resolve.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue

from toolrail.policy.findings import (
    DEFAULT_ALLOW,
    OWN_SOURCES,
    Findings,
    find,
    why_void,
)
from toolrail.policy.inputs import PolicyInput
from toolrail.policy.resolve import conclude
from toolrail.policy.rules import Say
from toolrail.policy.verdicts import Ruling, Verdict
from toolrail_schemas import Layer, PolicyDecision


class Outcome(StrEnum):
    """What became of a voice."""

    DECIDED = "decided"
    """It is the reason of the decision."""
    AGREES = "agrees"
    """It says the same as the one that decided."""
    COUNTS = "counts"
    """It shapes the decision without being its reason."""
    OUTVOTED = "outvoted"
    """A stronger voice said otherwise."""
    WAIVED = "waived"
    """It asked for approval and was waived."""
    VOID = "void"
    """It may not say this about this tool, or there was nothing to say it about."""
    SILENT = "silent"
    """The layer says nothing about the tool."""


@dataclass(frozen=True, slots=True)
class Voice:
    """One thing a layer says about the tool, and what became of it.

    Attributes:
        title: The layer, with the name of its profile or user.
        says: `deny`, `allow`, `require_approval` or `waive`; None for a silent layer.
        note: Why, when the outcome alone does not say it.
    """

    layer: Layer
    title: str
    says: Say | None
    rule: str | None
    outcome: Outcome
    note: str = ""

    def as_data(self) -> dict[str, JsonValue]:
        """Return the voice as JSON."""
        return {
            "layer": self.layer.value,
            "title": self.title,
            "says": None if self.says is None else self.says.value,
            "rule": self.rule,
            "outcome": self.outcome.value,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision with all voices, in the order in which denials are reported."""

    tool: str
    caller: str
    surface: str
    decision: PolicyDecision
    voices: tuple[Voice, ...]

    @property
    def losers(self) -> tuple[Voice, ...]:
        """The voices that wanted something else."""
        lost = {Outcome.OUTVOTED, Outcome.WAIVED, Outcome.VOID}
        return tuple(voice for voice in self.voices if voice.outcome in lost)

    def as_data(self) -> dict[str, JsonValue]:
        """Return the explanation as JSON."""
        return {
            "tool": self.tool,
            "caller": self.caller,
            "surface": self.surface,
            "decision": self.decision.model_dump(mode="json"),
            "voices": [voice.as_data() for voice in self.voices],
        }

    def as_text(self) -> str:
        """Return the explanation as lines a person reads."""
        return "\n".join(_lines(self)) + "\n"


def explain(query: PolicyInput) -> Explanation:
    """Return the decision on one question with everything that bears on it."""
    findings = find(query)
    decision = conclude(query, findings)
    return Explanation(
        tool=query.spec.name,
        caller=query.caller.value,
        surface=query.surface,
        decision=decision,
        voices=tuple(_Telling(query, findings, decision).voices()),
    )


class _Telling:
    """One walk through the findings."""

    def __init__(self, query: PolicyInput, findings: Findings, decision: PolicyDecision) -> None:
        self.query = query
        self.findings = findings
        self.decision = decision
        self.asked = {found.layer: found for found in findings.requirements}

    def voices(self) -> Iterator[Voice]:
        base, full = self.findings.base.in_order(), self.findings.full.in_order()
        for plain, strict in zip(base, full, strict=True):
            told = list(self._layer(plain, strict))
            yield from told or [self._voice(plain.layer, None, None, Outcome.SILENT)]
        yield from self._facts()

    def _layer(self, plain: Verdict, strict: Verdict) -> Iterator[Voice]:
        layer = plain.layer
        denied = strict.denied if strict.explicitly_denied else plain.denied
        if denied is not None:
            yield self._denial(layer, denied)
        granted = plain.granted
        if granted is None and layer is Layer.SOURCE and self.query.facts.default_allow:
            granted = DEFAULT_ALLOW
        if granted is not None:
            yield self._grant(layer, granted)
        elif strict.granted is not None:
            note = "effects of arguments alone grant nothing"
            yield self._voice(layer, Say.ALLOW, strict.granted.rule, Outcome.VOID, note)
        required, waived = strict.required or plain.required, strict.waived or plain.waived
        if required is not None:
            yield self._requirement(layer, required.rule)
        if waived is not None:
            yield self._waiver(layer, waived)

    def _facts(self) -> Iterator[Voice]:
        written = {verdict.layer for verdict in self.findings.base.in_order()}
        for denial in self.findings.denials:
            if denial.layer not in written:
                yield self._denial(denial.layer, denial.ruling)
        for layer, asked in self.asked.items():
            if layer not in written and self.decision.visible:
                yield self._requirement(layer, asked.rule)

    def _denial(self, layer: Layer, ruling: Ruling) -> Voice:
        decided = self.decision.reason.layer is layer
        outcome = Outcome.DECIDED if decided else Outcome.AGREES
        return self._voice(layer, Say.DENY, ruling.rule, outcome, ruling.reason or "")

    def _grant(self, layer: Layer, ruling: Ruling) -> Voice:
        void = why_void(self.query, layer)
        if void is not None:
            return self._voice(layer, Say.ALLOW, ruling.rule, Outcome.VOID, void)
        if self.findings.denials:
            return self._voice(
                layer, Say.ALLOW, ruling.rule, Outcome.OUTVOTED, "a denial beats any allow"
            )
        first = self.findings.grants[0].layer is layer
        outcome = Outcome.DECIDED if first else Outcome.AGREES
        return self._voice(layer, Say.ALLOW, ruling.rule, outcome)

    def _requirement(self, layer: Layer, rule: str) -> Voice:
        say = Say.REQUIRE_APPROVAL
        if not self.decision.visible:
            note = "there is no call to approve"
            return self._voice(layer, say, rule, Outcome.VOID, note)
        asked = self.asked[layer]
        if asked.waived_by is not None:
            return self._voice(layer, say, rule, Outcome.WAIVED, f"by {asked.waived_by}")
        return self._voice(layer, say, rule, Outcome.COUNTS)

    def _waiver(self, layer: Layer, ruling: Ruling) -> Voice:
        source = self.query.spec.source
        if layer is Layer.PROFILE and source not in OWN_SOURCES:
            note = f"a profile cannot waive approvals of {source.value} tools"
            return self._voice(layer, Say.WAIVE, ruling.rule, Outcome.VOID, note)
        words = f"{layer.value} rule {ruling.rule}"
        used = any(asked.waived_by == words for asked in self.asked.values())
        if used and self.decision.visible:
            return self._voice(layer, Say.WAIVE, ruling.rule, Outcome.COUNTS)
        note = "there is no approval it could waive"
        return self._voice(layer, Say.WAIVE, ruling.rule, Outcome.VOID, note)

    def _voice(
        self, layer: Layer, says: Say | None, rule: str | None, outcome: Outcome, note: str = ""
    ) -> Voice:
        return Voice(layer, self.query.layers.title(layer), says, rule, outcome, note)


def _lines(told: Explanation) -> Iterator[str]:
    decision = told.decision
    yield f"{told.tool} for caller {told.caller} on surface {told.surface}: {_verdict(decision)}"
    yield f"  {decision.reason.message}"
    then = "" if decision.visible else f", on_denied {decision.on_denied}"
    yield f"  code {decision.reason.code}{then}"
    yield ""
    rows = [("layer", "says", "rule", "outcome")] + [
        (
            voice.title,
            voice.says.value if voice.says is not None else "nothing",
            voice.rule or "",
            f"{voice.outcome}: {voice.note}" if voice.note else voice.outcome.value,
        )
        for voice in told.voices
        if voice.outcome is not Outcome.SILENT
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield f"  {'  '.join(cells)}  {row[3]}".rstrip()
    silent = [voice.title for voice in told.voices if voice.outcome is Outcome.SILENT]
    if silent:
        yield f"  silent: {', '.join(silent)}"
    yield ""
    yield f"  budget: {_budget(decision)}"
    for warning in decision.warnings:
        yield f"  warning: {warning}"


def _verdict(decision: PolicyDecision) -> str:
    if not decision.visible:
        return "DENIED"
    if not decision.callable:
        return "VISIBLE, NOT CALLABLE NOW"
    return "ALLOWED WITH APPROVAL" if decision.approval_required else "ALLOWED"


def _budget(decision: PolicyDecision) -> str:
    budget, owners = decision.budget, decision.budget.source_of
    left = "any number of calls"
    if budget.calls_remaining is not None:
        left = f"{budget.calls_remaining} calls left in the run ({owners['calls']})"
    turn = ""
    if budget.calls_remaining_turn is not None:
        turn = f", {budget.calls_remaining_turn} in the turn ({owners['calls_turn']})"
    return (
        f"{left}{turn}, {budget.timeout_ms} ms ({owners['timeout_ms']}), "
        f"{budget.max_output_tokens} tokens of output ({owners['max_output_tokens']})"
    )
