"""Check the examples that stand beside the rules.

Is: the promise that a rule selects every tool under `match` and none under `not_match`. Is not:
the reading of files. Above: `load.py`. Below: `verdicts.py`, `rules.py`.
"""

from collections.abc import Iterator

from toolrail.policy.layers import WrittenLayer
from toolrail.policy.rules import Example, Rule, Say
from toolrail.policy.selectors import PolicyTextError, parse_selector
from toolrail.policy.verdicts import CompiledLayer, Verdict


def failed_examples(layer: WrittenLayer) -> Iterator[PolicyTextError]:
    """Yield one problem for each example that does not hold; its key leads to the example."""
    compiled = CompiledLayer(layer)
    for index, rule in enumerate(layer.rules):
        for kind, examples in (("match", rule.match), ("not_match", rule.not_match)):
            wanted = kind == "match"
            for position, example in enumerate(examples):
                if _selects(rule, example, sure=wanted) is wanted:
                    continue
                verb = "does not select" if wanted else "selects"
                outcome = describe(compiled.judge(example.subject()))
                yield PolicyTextError(
                    f"rule {rule.id!r} {verb} {example.tool!r}, which {outcome} in this file",
                    "Correct the rule's tools or the example.",
                    key=("rules", index, kind, position),
                )


def describe(verdict: Verdict) -> str:
    """Return what a layer does with a tool, as the end of a sentence."""
    if verdict.denied is not None:
        return f"is denied by {verdict.denied.rule}"
    said: list[str] = []
    if verdict.granted is not None:
        said.append(f"is allowed by {verdict.granted.rule}")
    if verdict.required is not None:
        said.append(f"needs approval by {verdict.required.rule}")
    if verdict.waived is not None:
        said.append(f"is excused from approval by {verdict.waived.rule}")
    return " and ".join(said) or "nothing speaks of"


def _selects(rule: Rule, example: Example, *, sure: bool) -> bool:
    """Return whether the rule speaks about the example.

    Args:
        rule: The rule.
        example: The tool.
        sure: Of `approval`, which grants and requires, whether both parts must reach the tool.
    """
    widening = rule.effect in {Say.ALLOW, Say.WAIVE} or (sure and rule.effect is Say.APPROVAL)
    subject = example.subject()
    return any(parse_selector(text).matches(subject, widening=widening) for text in rule.tools)
