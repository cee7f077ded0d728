"""What policy sees of a patch before anybody reads it.

Is: each way in which a patch takes a file away, against the eyes of `toolrail.policy.dynamic`. Is
not: the grammar (`test_patch_grammar.py`).
Above: nothing. Below: `tests/patching.py`.
"""

import pytest

from tests.patching import envelope, planned
from toolrail.errors import SystemFailure
from toolrail.policy.dynamic import effects_of_arguments
from toolrail.policy.selectors import Effect
from toolrail_workers.builtin.patching.problems import PatchError
from toolrail_workers.builtin.paths import parse_path
from toolrail_workers.builtin.workspace import TOOLS

PATH = "output/a.txt"
HUNK = "@@ -1 +0,0 @@\n-old\n"
FILES = {PATH: b"old\n"}


@pytest.mark.parametrize(
    "patch",
    [
        envelope(f"*** Delete File: {PATH}"),
        envelope(f"*** Update File: {PATH}", "*** Move to: output/b.txt"),
        f"--- a/{PATH}\n+++ /dev/null\n{HUNK}",
        f"--- a/{PATH}\n+++ /dev/null\t2026-12-01\n{HUNK}",
        f"diff --git a/{PATH} b/{PATH}\ndeleted file mode 100644\n{HUNK}",
        f"diff --git a/{PATH} b/b.txt\nrename from {PATH}\nrename to output/b.txt\n",
        f"```\n--- a/{PATH}\n+++ /dev/null\n{HUNK}```\n",
        f"--- a/{PATH}\r\n+++ /dev/null\r\n@@ -1 +0,0 @@\r\n-old\r\n",
    ],
)
def test_every_patch_that_takes_a_file_away_is_destructive(patch: str) -> None:
    """Policy looks at lines, without the grammar: it must see each way that the grammar has."""
    spec = next(tool.spec for tool in TOOLS if tool.spec.name == "workspace.apply_patch")
    assert planned(patch, FILES).changes[parse_path(PATH)].after is None
    assert effects_of_arguments(spec, {"patch": patch}) == {Effect.DESTRUCTIVE}


@pytest.mark.parametrize("name", ['"/dev/null"', '"/dev\\057null"'])
def test_nothing_in_quotes_is_a_name(name: str) -> None:
    """Git takes only the bare words for nothing, and policy could not see the deletion."""
    patch = f"--- a/{PATH}\n+++ {name}\n{HUNK}"
    with pytest.raises((PatchError, SystemFailure)):
        planned(patch, FILES)
