"""The README's example, run as a newcomer would: in a folder where `toolrail up` runs."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_cluster import Up
from toolrail.settings import own_environment

README = Path(__file__).parents[2] / "README.md"
LINES_MAX = 18
"""Fifteen and the imports."""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A cluster in a folder of its own."""
    up = Up(tmp_path)
    yield up
    up.close()


def example() -> tuple[str, str]:
    """Return the example and the output that stands below it."""
    text = README.read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.S)
    assert found is not None
    return found[1], found[2]


def test_the_example_prints_what_the_readme_says(up: Up) -> None:
    """The code is taken from the page; no variable is set anywhere."""
    code, expected = example()
    (up.folder / "agent.py").write_text(code, encoding="utf-8")
    up.wait_ready()
    ran = subprocess.run(
        [sys.executable, "agent.py"],
        cwd=up.folder,
        env=own_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.stdout == expected, ran.stderr
    assert len([line for line in code.splitlines() if line.strip()]) <= LINES_MAX
