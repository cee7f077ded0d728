"""What operators' tables never print, whoever reads them.

Is: `toolrail.cli.tables` into a pipe. Is not: what stands in the tables. Above: nothing.
Below: `toolrail.cli.tables`.
"""

import pytest

from toolrail.cli.tables import print_fields, print_table

TOKEN = "ghp_" + "a1B2" * 9


def test_a_secret_or_an_escape_is_in_no_cell(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where nobody looks and another program reads."""
    print_table(["name"], [[f"\x1b {TOKEN}"]])
    print_fields({"name": f"\x1b {TOKEN}"})
    out = capsys.readouterr().out

    assert out.count("\\u001b «redacted»") == 2
    assert TOKEN not in out
