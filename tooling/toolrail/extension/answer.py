"""Turn what a function answered, or how it failed, into the one message that is sent.

Is: the limits of a `CallReply`, held before sending, so that an author reads them in words. Is not:
the worker's check, which believes nothing. Above: `invocation.py`. Below: `toolrail.output`.
"""

from collections.abc import Iterator

from pydantic import ValidationError

from toolrail.extension.bridge import CallId
from toolrail.tools import ToolError, ToolOutput
from toolrail_schemas import Block, CallReply, JsonBlock, TextBlock

TEXT_BYTES = 64 * 1024
"""Of one text block. Source: semantics 1.5."""
ERROR_CHARS = 2000


def reply_of(call: CallId, output: ToolOutput) -> str:
    """Return the message that carries an output; one that no message can carry becomes an error."""
    try:
        blocks = list(_blocks(output))
        said = {} if output.structured is None else {"structured": output.structured}
        reply = CallReply.model_validate(
            {
                "call_key": call.call_key,
                "attempt": call.attempt,
                "content": blocks,
                "is_error": output.is_error,
                **said,
            }
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        text = first["msg"].removeprefix("Value error, ")
        return failure(call, f"The tool ran, but its answer cannot be sent: {text}.")
    except UnicodeEncodeError:
        return failure(call, "The tool ran, but its answer is text that is not valid Unicode.")
    except ToolError as error:
        return failure(call, error.message)
    return _spell(reply)


def failure(call: CallId, text: str, *, structured: object = None) -> str:
    """Return the message of a call that failed, in words for a model."""
    clean = text.encode("utf-8", "replace").decode("utf-8")[:ERROR_CHARS]
    fields: dict[str, object] = {
        "call_key": call.call_key,
        "attempt": call.attempt,
        "content": (TextBlock(text=clean),),
        "is_error": True,
    }
    try:
        data = {} if structured is None else {"structured": structured}
        return _spell(CallReply.model_validate({**fields, **data}))
    except ValidationError:
        # Repair data that no message can carry; the words are worth more than nothing.
        return _spell(CallReply.model_validate(fields))


def failure_of(call: CallId, error: ToolError) -> str:
    """Return the message of a call whose tool said what went wrong."""
    text = f"{error.message} {error.next_action}" if error.next_action else error.message
    return failure(call, text, structured=error.structured)


def _spell(reply: CallReply) -> str:
    # A null that was not said would pass for a structured answer.
    unsaid = set[str]() if "structured" in reply.model_fields_set else {"structured"}
    return reply.model_dump_json(exclude=unsaid)


def _blocks(output: ToolOutput) -> Iterator[Block]:
    for block in output.content:
        match block:
            case TextBlock():
                yield from (TextBlock(text=part) for part in _parts(block.text))
            case JsonBlock() if block.value == output.structured:
                # Said once is enough; the structured part has room for more.
                continue
            case JsonBlock():
                yield JsonBlock(value=block.value)
            case _:
                raise ToolError(
                    "tool.invalid_output",
                    f"The tool ran, but answered with a {block.kind} block. "
                    "An extension answers with text and JSON only.",
                )


def _parts(text: str) -> Iterator[str]:
    """Yield a long text in parts that fit a block, cut at line ends where there are any."""
    data = text.encode()
    while len(data) > TEXT_BYTES:
        end = data.rfind(b"\n", 0, TEXT_BYTES)
        if end > 0:
            yield data[:end].decode()
            data = data[end + 1 :]
            continue
        # Inside of a character the next bytes begin with 0b10.
        end = TEXT_BYTES
        while data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[:end].decode()
        data = data[end:]
    yield data.decode()
