"""Let no result name what does not exist.

Is: one look at the ledger's Redis for the refs that a tool gave out, when it gave any (semantics 7,
row 50). Is not: their grammar (`output.py`) or files of a workspace, which only its executor sees.
Above: `execute.py`. Below: `books.py`.
"""

import logging
import re
from collections.abc import Collection

from toolrail.errors import ToolrailError
from toolrail.redis_io import command, retrying
from toolrail.tools import ToolOutput
from toolrail_schemas import parse_ref
from toolrail_workers.books import Books
from toolrail_workers.output import given_refs, refused_output

log = logging.getLogger(__name__)

_SHA256 = re.compile(r"[0-9a-f]{64}")


class GivenRefs:
    """Looks up artifacts and calls that results refer to."""

    def __init__(self, books: Books) -> None:
        self._books = books

    async def checked(
        self, output: ToolOutput, *, run_id: str, stored: Collection[str]
    ) -> ToolOutput:
        """Return the output, or what is told instead when a ref of it leads nowhere.

        Args:
            output: Of a tool.
            run_id: Whose refs they must be; those of another run are refused elsewhere.
            stored: Blobs that this call has stored itself.
        """
        keys: dict[str, str] = {}
        for ref in given_refs(output):
            key = self._key_of(ref, run_id, stored)
            if key == "":
                return refused_output(output, ref)
            if key is not None:
                keys[ref] = key
        if not keys or await self._all_exist(set(keys.values())):
            return output
        for ref, key in keys.items():
            if not await self._all_exist({key}):
                return refused_output(output, ref)
        return output

    def _key_of(self, ref: str, run_id: str, stored: Collection[str]) -> str | None:
        """Return the key that must exist, "" when none can, None when it is not ours to say."""
        try:
            parsed = parse_ref(ref)
        except ValueError:
            return None
        match parsed.scheme:
            case "artifact" if parsed.target.startswith(f"{run_id}/"):
                sha256 = parsed.target.removeprefix(f"{run_id}/")
                if sha256 in stored:
                    return None
                return self._books.keys.blob(sha256) if _SHA256.fullmatch(sha256) else ""
            case "result" | "args":
                return self._books.keys.call(run_id, parsed.target)
            case _:
                return None

    async def _all_exist(self, keys: Collection[str]) -> bool:
        try:
            found = await retrying(
                lambda: command(self._books.redis, "EXISTS", *keys),
                deadline_s=self._books.deadline_s,
            )
        except ToolrailError as error:
            # The tool has done its work: a result with a doubtful ref is better than none.
            log.warning("refs.not_checked", extra={"reason": error.message})
            return True
        return found == len(keys)
