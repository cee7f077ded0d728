"""Tell the model what a person did to its call: changed the arguments, or refused (DESIGN 2.3).

Is: of an edit, one text block in front of whatever else a result says, for calls that ran and for
calls that ended without; of a refusal, the text. Is not: what the person did, which the ledger
has recorded, with these words beside it.
Above: `closing.py`, `results.py`, approvals, workers. Below: redaction, the schemas.
"""

import json

from toolrail.redaction import summarize
from toolrail_schemas import JsonObject, TextBlock, ToolResult, ToolSpec


def edited_summary(spec: ToolSpec, arguments: JsonObject) -> str:
    """Return the approved arguments as a model may read them, without secrets; never empty."""
    return summarize(spec, arguments) or "none"


def with_notice(result: ToolResult, edited: str) -> ToolResult:
    """Return the result with the notice in front.

    Args:
        result: Of at most 31 blocks when there is a notice.
        edited: What `edited_summary` said when the call was approved; "" for a call that has the
            model's own arguments, whose result stays as it is.

    Raises:
        ValidationError: There are more blocks.
    """
    if not edited:
        return result
    notice = TextBlock(
        text="A person changed the arguments of this call before approving it. "
        f"The approved arguments are: {edited}"
    )
    return ToolResult.model_validate({**dict(result), "content": (notice, *result.content)})


def refusal_text(said: str) -> str:
    """Return what the model reads of a refusal.

    Args:
        said: By the person, at most 500 characters of anything; "" for no reason. They stand
            last, as a JSON string on one line, so that no word of theirs can be taken for ours.
    """
    text = "A person refused this call. Do not repeat it; continue without it."
    if not said:
        return text
    shown = "".join(char if char.isprintable() or char == "\n" else " " for char in said)
    return f"{text} Their reason, as a JSON string: {json.dumps(shown, ensure_ascii=False)}"
