"""Tell the model that a person changed its arguments.

Is: one text block in front of what the tool said (DESIGN 2.3). Is not: the change itself, which
the ledger has made. Above: `execute.py`. Below: `answers.py`, redaction.
"""

from dataclasses import replace

from toolrail.redaction import summarize
from toolrail_schemas import JsonObject, TextBlock, ToolSpec
from toolrail_workers.answers import Answer

BLOCKS_MAX = 32
"""Source: semantics 1.5."""


def with_notice(answer: Answer, spec: ToolSpec, arguments: JsonObject) -> Answer:
    """Return the answer with the arguments that were approved, as a summary without secrets."""
    ran_with = summarize(spec, arguments) or "no arguments"
    notice = TextBlock(
        text="A person changed the arguments of this call before approving it. "
        f"It ran with: {ran_with}"
    )
    result = answer.result
    content = result.content
    if len(content) < BLOCKS_MAX:
        content = (notice, *content)
    elif isinstance(content[0], TextBlock):
        content = (TextBlock(text=f"{notice.text}\n\n{content[0].text}"), *content[1:])
    return replace(answer, result=result.model_copy(update={"content": content}))
