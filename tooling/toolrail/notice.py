"""Tell the model that a person changed its arguments (DESIGN 2.3).

Is: one text block in front of whatever else a result says, for calls that ran and for calls that
ended without. Is not: the change itself, which the ledger has made, with these words beside it.
Above: `closing.py`, `results.py`, workers. Below: redaction, the schemas.
"""

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
