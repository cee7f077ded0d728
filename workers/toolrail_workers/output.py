"""Fit what a tool answered into its budget; what is cut is stored whole and named by a ref.

Is: pure functions from a `ToolOutput` and limits to the blocks of a result (semantics 1.3, 1.5).
Is not: storing (`execute.py` puts the spills first) or the result's other fields (`answers.py`).
Above: `answers.py`. Below: `toolrail.tokens`, the schemas.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import to_json

from toolrail.output import no_output
from toolrail.tokens import cut_at_tokens, estimate_tokens
from toolrail.tools import ToolError, ToolOutput
from toolrail_schemas import (
    Block,
    JsonBlock,
    ResourceRefBlock,
    TextBlock,
    artifact_ref,
    error_info,
    parse_ref,
    ref_of,
    result_ref,
    sha256_hex,
)

INLINE_MAX_BYTES = 64 * 1024
"""All text and JSON of a result that stands inline. Source: semantics 1.3."""
STRUCTURED_MAX_BYTES = 256 * 1024
BLOCKS_MAX = 32
"""Of one result. Source: semantics 1.5."""
REFS_MAX = 64
TAIL_TOKENS = 64
TAIL_BYTES = 1024
"""Set aside for the line that says how to read the rest."""
TAIL_BLOCKS = 3
"""That line, and a ref for content and for structured output each."""

_Shown = tuple[Block, str | None]
"""A block and its text; None for a block that only refers."""


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """What one call may answer."""

    tokens: int
    """Shown to the model."""
    stored_bytes: int
    """Stored in all; more is `tool.output_too_large`."""
    blocks: int = BLOCKS_MAX
    """Shown to the model."""


@dataclass(frozen=True, slots=True)
class Spill:
    """Bytes that must be stored before the result that refers to them."""

    data: bytes
    mime: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedOutput:
    """An output within all limits of a result."""

    content: tuple[Block, ...]
    structured: JsonValue
    resource_refs: tuple[str, ...]
    truncated: bool
    output_bytes: int
    """Of the whole output, before the cut."""
    output_tokens: int
    """Of what is shown."""
    spills: tuple[Spill, ...] = ()


def fit_output(
    output: ToolOutput, *, run_id: str, call_key: str, limits: OutputLimits
) -> FittedOutput:
    """Return the output as it may stand in a result.

    Raises:
        ToolError: `tool.output_too_large`, over the stored limit; `tool.invalid_output`, a ref
            outside of the grammar or of the run, or text or JSON that cannot be written.
    """
    blocks: list[_Shown] = [(block, _text_of(block)) for block in output.content]
    size = sum(_size_of(text) for _, text in blocks if text is not None)
    structured = b"" if output.structured is None else _json_bytes(output.structured)
    if size + len(structured) > limits.stored_bytes:
        raise _too_large(size + len(structured), limits.stored_bytes)
    if not blocks and structured:
        # The model is shown the structured value when there is nothing else to show.
        blocks = [(JsonBlock.model_construct(value=output.structured), structured.decode())]
    tokens = _tokens_if_small(blocks, limits.blocks)
    if tokens is None or tokens > limits.tokens or len(structured) > STRUCTURED_MAX_BYTES:
        return _Cut(output, blocks, structured, run_id=run_id, limits=limits).fitted(size)
    refs = _refs(output, output.content, run_id=run_id)
    truncated = output.truncated or len(refs) > REFS_MAX
    if truncated and not refs:
        refs = (result_ref(call_key),)
    return FittedOutput(
        content=output.content,
        structured=output.structured,
        resource_refs=refs[:REFS_MAX],
        truncated=truncated,
        output_bytes=size + len(structured),
        output_tokens=tokens,
    )


def _tokens_if_small(blocks: Sequence[_Shown], most: int) -> int | None:
    """Return the tokens of what may stand inline, None when it may not."""
    if len(blocks) > most:
        return None
    if len(blocks) == 1:
        text = blocks[0][1] or ""
        return estimate_tokens(text) if _size_of(text) <= INLINE_MAX_BYTES else None
    texts = [text for _, text in blocks if text]
    if sum(map(_size_of, texts)) > INLINE_MAX_BYTES:
        return None
    return sum(map(estimate_tokens, texts))


class _Cut:
    """The slow path: something does not fit."""

    def __init__(
        self,
        output: ToolOutput,
        blocks: Sequence[_Shown],
        structured: bytes,
        *,
        run_id: str,
        limits: OutputLimits,
    ) -> None:
        self._output = output
        self._blocks = blocks
        self._structured = structured
        self._run_id = run_id
        self._tokens_left = max(limits.tokens - TAIL_TOKENS, limits.tokens // 2)
        self._bytes_left = INLINE_MAX_BYTES - TAIL_BYTES
        self._blocks_max = limits.blocks - TAIL_BLOCKS
        self._shown_tokens = 0
        self._shown_bytes = 0
        self._kept: list[Block] = []

    def fitted(self, size: int) -> FittedOutput:
        """Return what is kept, with the rest as spills and refs."""
        content_cut = self._keep()
        structured_cut = len(self._structured) > STRUCTURED_MAX_BYTES
        spills: list[Spill] = []
        if structured_cut:
            spills.append(_spill(self._structured, "application/json"))
        if content_cut and not (structured_cut and not self._output.content):
            spills.append(_whole(self._blocks))
        content = (*self._kept, *self._tail(spills, size or len(self._structured)))
        refs = _refs(self._output, content, run_id=self._run_id)
        return FittedOutput(
            content=content,
            structured=None if structured_cut else self._output.structured,
            resource_refs=refs[:REFS_MAX],
            truncated=bool(spills) or self._output.truncated or len(refs) > REFS_MAX,
            output_bytes=size + len(self._structured),
            output_tokens=self._shown_tokens,
            spills=tuple(spills),
        )

    def _keep(self) -> bool:
        """Keep blocks while they fit, media also behind the cut; return whether any was cut."""
        cut = cut_text = False
        for block, text in self._blocks:
            if len(self._kept) >= self._blocks_max or (cut_text and text is not None):
                cut = True
            elif text is None:
                self._kept.append(block)
            else:
                cut_text = not self._keep_text(block, text)
                cut = cut or cut_text
        return cut

    def _keep_text(self, block: Block, text: str) -> bool:
        end = _fitting(text, self._tokens_left, self._bytes_left)
        shown = text[:end]
        if shown:
            self._kept.append(block if end == len(text) else TextBlock(text=shown))
        tokens, size = estimate_tokens(shown), _size_of(shown)
        self._tokens_left -= tokens
        self._bytes_left -= size
        self._shown_tokens += tokens
        self._shown_bytes += size
        return end == len(text)

    def _tail(self, spills: Sequence[Spill], size: int) -> list[Block]:
        if not spills:
            return []
        refs = [artifact_ref(self._run_id, spill.sha256) for spill in spills]
        line = (
            f"[Cut: {self._shown_bytes} of {size} bytes are shown. The whole output is stored; "
            "read it by the ref that follows, or call again for a smaller part.]"
        )
        self._shown_tokens += estimate_tokens(line)
        blocks: list[Block] = [TextBlock(text=line)]
        for spill, ref in zip(spills, refs, strict=True):
            blocks.append(
                ResourceRefBlock(
                    uri=ref, mime=spill.mime, title="the whole output", bytes=len(spill.data)
                )
            )
        return blocks


def _fitting(text: str, tokens: int, size: int) -> int:
    """Return where to cut: the last line end that fits, if it keeps at least half of what fits."""
    end = cut_at_tokens(text, tokens)
    if not text.isascii():
        data = text[:end].encode()
        if len(data) > size:
            end = len(data[:size].decode(errors="ignore"))
    else:
        end = min(end, size)
    if end == len(text):
        return end
    line_end = text.rfind("\n", 0, end) + 1
    return line_end if line_end * 2 >= end else end


def _whole(blocks: Sequence[_Shown]) -> Spill:
    """Return all blocks as bytes: as they are when there is one, as JSON when media are among."""
    texts = [text for _, text in blocks if text is not None]
    if len(blocks) == 1 and isinstance(blocks[0][0], JsonBlock):
        return _spill(texts[0].encode(), "application/json")
    if len(texts) == len(blocks):
        return _spill("\n".join(texts).encode(), "text/plain")
    return _spill(to_json([block for block, _ in blocks]), "application/json")


def _spill(data: bytes, mime: str) -> Spill:
    return Spill(data, mime, sha256_hex(data))


def _text_of(block: Block) -> str | None:
    if isinstance(block, TextBlock):
        return block.text
    return _json_bytes(block.value).decode() if isinstance(block, JsonBlock) else None


def _size_of(text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise no_output("text that is not valid Unicode") from None


def _json_bytes(value: JsonValue) -> bytes:
    try:
        data = to_json(value)
        # Only a float can be NaN, and then these words stand in the text.
        if b"NaN" in data or b"Infinity" in data:
            json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        raise no_output("a value that JSON cannot carry") from None
    return data


def _refs(output: ToolOutput, content: Sequence[Block], *, run_id: str) -> tuple[str, ...]:
    """Return all refs once, those of blocks first, each checked."""
    refs = _all_refs(content, output.resource_refs)
    for ref in refs:
        try:
            parsed = parse_ref(ref)
        except ValueError:
            raise no_output("a reference that is not one of ours") from None
        if parsed.scheme == "artifact" and not parsed.target.startswith(f"{run_id}/"):
            raise no_output("a reference to something of another run")
    return refs


def _all_refs(content: Sequence[Block], others: Sequence[str]) -> tuple[str, ...]:
    found = [ref for block in content if (ref := ref_of(block)) is not None]
    return tuple(dict.fromkeys((*found, *others))) if found or others else ()


def given_refs(output: ToolOutput) -> tuple[str, ...]:
    """Return all refs that a tool gave out, each once, as it wrote them."""
    return _all_refs(output.content, output.resource_refs)


def refused_output(output: ToolOutput, ref: str) -> ToolOutput:
    """Return what is told instead of an output with a ref that leads nowhere.

    Its events stay, because what the tool did has happened.
    """
    info = error_info("tool.invalid_output")
    text = f"The tool's answer refers to {ref[:200]!r}, which does not exist. {info.remedy}"
    return ToolOutput(
        content=(TextBlock(text=text),),
        is_error=True,
        error_code=info.code,
        error_class=info.error_class,
        events=output.events,
    )


def _too_large(size: int, limit: int) -> ToolError:
    return ToolError(
        "tool.output_too_large",
        f"The tool answered {size} bytes; at most {limit} may be stored.",
        next_action="Ask for less, for example a smaller range.",
    )
