"""What the arguments of one call add to the effects of its tool.

Is: a small table of our own tools whose danger depends on what they are asked. Its answers are
facts for the resolver and can only raise the bar. Is not: validation of arguments, nor the parser
of patches; where a patch cannot be read for certain, this errs towards danger.
Above: dispatcher, `toolrail policy explain`. Below: `selectors.py`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

from toolrail.policy.inputs import NO_EFFECTS
from toolrail.policy.selectors import Effect
from toolrail_schemas import Source, ToolSpec

Arguments = Mapping[str, JsonValue]

_REMOVING_LINES: Final = (
    "*** Delete File:",
    "*** Move to:",
    "+++ /dev/null",
    "deleted file mode",
    "rename from",
    "rename to",
)
"""Lines of a patch, in either format, after which a path no longer has its file."""


def effects_of_arguments(spec: ToolSpec, arguments: Arguments) -> frozenset[Effect]:
    """Return the effects a call has because of its arguments.

    Args:
        spec: The tool that is called; only builtin tools are looked at, by canonical name.
        arguments: As the caller gave them, not yet validated.
    """
    judge = _JUDGES.get(spec.name) if spec.source is Source.BUILTIN else None
    return NO_EFFECTS if judge is None else judge(arguments)


def _patch(arguments: Arguments) -> frozenset[Effect]:
    """Deleting or moving a file destroys what stood at its path. Source: semantics 5.5."""
    patch = arguments.get("patch")
    if not isinstance(patch, str):
        return NO_EFFECTS
    removes = any(line.startswith(_REMOVING_LINES) for line in patch.splitlines())
    return frozenset({Effect.DESTRUCTIVE}) if removes else NO_EFFECTS


_JUDGES: Final[Mapping[str, Callable[[Arguments], frozenset[Effect]]]] = {
    "workspace.apply_patch": _patch,
}
