"""Adapt one schema to one dialect, with everything that was lost on the way.

Is: the three steps in order. Is not: the steps (`normal.py`, `roots.py`, `fit.py`).
Above: `toolrail.providers`. Below: the steps. Source: providers.md 3.2.
"""

from collections.abc import Mapping

from pydantic import JsonValue

from toolrail.providers.schema.adapted import Adapted
from toolrail.providers.schema.dialects import Dialect
from toolrail.providers.schema.fit import Fitter
from toolrail.providers.schema.normal import Normaliser
from toolrail.providers.schema.notes import Notes
from toolrail.providers.schema.roots import object_root


def adapt(schema: Mapping[str, JsonValue], dialect: Dialect) -> Adapted:
    """Return the schema as the dialect's API takes it; never raises, never fetches.

    What fits the original fits the result, once its keys are spelled as in `keys`, except for
    losses of the kind `narrowed`. What fits the result fits the original unless a loss is told.
    """
    if not dialect.adapts:
        return Adapted(dict(schema))
    notes = Notes()
    plain = object_root(Normaliser(dict(schema), notes).run(), notes)
    fitter = Fitter(dialect, notes)
    fitted = fitter.run(plain)
    return Adapted(fitted, fitter.keys, notes.losses)
