"""Give every call an id of ours, and find the one its provider knows it by.

Is: ids that a retry of the same answer gets again. Is not: the ledger's call key. Above:
`decoding.py`. Below: nothing. Source: providers.md 0.3 and 2.
"""

import base64
import hashlib
import re
from collections.abc import Collection

PREFIX = "tc_"
ID_CHARS = 24


def neutral_id(run_id: str, turn: int, position: int) -> str:
    """Return `tc_` and 24 letters and digits: valid for every provider, the same on a retry."""
    digest = hashlib.sha256(f"{run_id}/{turn}/{position}".encode()).digest()
    return PREFIX + base64.b32encode(digest).decode("ascii").lower()[:ID_CHARS]


def wire_id(
    native: object, minted: str, *, pattern: re.Pattern[str], taken: Collection[str]
) -> str:
    """Return the provider's own id where it can be used again, else ours.

    Args:
        native: As the provider sent it; anything, or nothing.
        minted: Ours.
        pattern: What the provider takes as an id.
        taken: Ids of the conversation so far.
    """
    if isinstance(native, str) and pattern.fullmatch(native) and native not in taken:
        return native
    return minted
