"""A tool module that cannot be imported, and says a secret about it.

Is: what `test_planted_secrets.py` names as a tool module. Is not: imported by anything that lives.
Above: that test. Below: `tests/planted.py`.
"""

from tests import planted

raise ImportError(planted.IMPORTED.text)
