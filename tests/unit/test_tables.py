"""What operators see in tables and as JSON.

Is: `toolrail.cli.tables` and the clean words of `toolrail.cli.plain`. Is not: what stands in them.
Above: nothing. Below: `toolrail.cli`.
"""

import json

import pytest

from toolrail.cli.plain import plain
from toolrail.cli.tables import print_fields, print_json, print_note, print_table

TOKEN = "ghp_" + "a1B2" * 9
SECRET = "see https://u:needle@h"
CLEAN = "see https://u:«redacted»@h"


def test_no_cell_field_or_note_shows_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever record it came from, and whoever wrote that."""
    print_table(["a"], [[SECRET]])
    print_fields({"a": f"one\n{SECRET}"})
    print_json({"a": [{"b": SECRET, "password": "needle", "output_tokens": 3}]})
    print_note(SECRET)
    captured = capsys.readouterr()
    of_json = json.loads(captured.out.splitlines()[-1])

    assert "needle" not in captured.out + captured.err + plain(SECRET)
    assert captured.out.count(CLEAN) == 2
    assert of_json == {"a": [{"b": CLEAN, "password": "«redacted»", "output_tokens": 3}]}
    assert CLEAN in captured.err


def test_a_secret_or_an_escape_is_in_no_cell(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where nobody looks and another program reads."""
    print_table(["name"], [[f"\x1b {TOKEN}"]])
    print_fields({"name": f"\x1b {TOKEN}"})
    out = capsys.readouterr().out

    assert out.count("\\u001b «redacted»") == 2
    assert TOKEN not in out
