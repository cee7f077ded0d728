"""Be several workers that count the lines of one file up by patches, each its own line.

Is: a script. Is not: a test. Above: `test_patch_races.py`. Below: `workspaces.py`.
"""

import os
import sys
from pathlib import Path

from tests.component.workspaces import Workspace
from tests.patching import update

COUNTED = 6
"""How far each counts."""


def main(top: str, path: str, letters: str) -> None:
    """Fork a process for each letter and end when all have."""
    letter = next((letter for letter in letters if os.fork() == 0), None)
    if letter is None:
        sys.exit(sum(os.wait()[1] for _ in letters))
    workspace = Workspace(Path(top), calls=os.getpid() * 1000)
    for number in range(COUNTED):
        workspace.patch(update(f"-{letter}: {number}", f"+{letter}: {number + 1}", path=path))


if __name__ == "__main__":
    main(*sys.argv[1:])
