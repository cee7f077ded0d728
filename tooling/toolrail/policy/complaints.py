"""Turn what is wrong with a policy into errors a person can act on.

Is: the translation of pydantic's findings and our own into `ConfigError`s that name file, line,
key, problem and fix. Is not: the finding.
Above: `load.py`. Below: `locate.py`, `layers.py`.
"""

import re
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from toolrail.errors import ConfigError
from toolrail.policy.layers import WrittenLayer
from toolrail.policy.locate import KeyPath, find_line
from toolrail.policy.rules import Example, Rule
from toolrail.policy.selectors import PolicyTextError, SelectorError, did_you_mean
from toolrail_schemas import Budget

_KINDS: Final = {
    "tuple_type": ("must be a list", "Put it in square brackets."),
    "dict_type": ("must be a table", None),
    "mapping_type": ("must be a table", None),
    "model_type": ("must be a table", None),
    "model_attributes_type": ("must be a table", None),
    "string_type": ("must be text", "Put it in quotes."),
    "int_type": ("must be a whole number", None),
    "bool_type": ("must be true or false", None),
    "missing": ("is missing", "Add it."),
}
"""What pydantic calls a mistake, in words that fit a TOML file."""

_QUOTED: Final = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True)
class Text:
    """Where a layer was read from.

    Attributes:
        file: Path as people know it; None when the layer came with a run.
        source: The text of the file; empty when there is none.
        data: The same, parsed.
        prefix: What stands before every key, `plan` for a plan node.
    """

    file: str | None
    source: str
    data: JsonValue
    prefix: str = ""

    def error(
        self, problem: str, *, fix: str | None, key: KeyPath = (), element: str | None = None
    ) -> ConfigError:
        """Return the error for one key of this text."""
        spelled = self._spell(key)
        return ConfigError(
            f"{problem.rstrip('.')}.",
            fix=fix,
            file=self.file,
            line=find_line(self.source, key, element=element) if key else None,
            key=".".join(part for part in (self.prefix, spelled) if part) or None,
        )

    def _spell(self, key: KeyPath) -> str:
        """Spell a key as in TOML; a rule by its id, other list elements not at all."""
        spelled = ""
        at: JsonValue = self.data
        for part in key:
            around, at = at, _step(at, part)
            if isinstance(part, int):
                named = at.get("id") if isinstance(at, dict) else None
                spelled += f"[{named}]" if isinstance(named, str) else ""
            elif isinstance(around, dict):
                bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
                spelled += f".{part}" if bare else f'."{part}"'
        return spelled.removeprefix(".")


def complaints(text: Text, model: type[WrittenLayer], error: ValidationError) -> list[ConfigError]:
    """Return one error for each of pydantic's findings, in its order."""
    return [_translate(text, model, details) for details in error.errors(include_url=False)]


def own_complaint(text: Text, error: PolicyTextError, *, under: KeyPath = ()) -> ConfigError:
    """Return the error for a problem we found ourselves."""
    key = (*under, *error.key)
    last = key[-1] if key else None
    return text.error(error.problem, fix=error.fix, key=key, element=_element(text.data, key, last))


def _translate(text: Text, model: type[WrittenLayer], details: ErrorDetails) -> ConfigError:
    loc: KeyPath = tuple(part for part in details["loc"] if part != "[key]")
    given: object = details["input"]
    context = details.get("ctx", {})
    cause: object = context.get("error")
    if isinstance(cause, SelectorError):
        element = given if isinstance(given, str) else None
        return text.error(f"{given!r} {cause.problem}", fix=cause.fix, key=loc, element=element)
    if isinstance(cause, PolicyTextError):
        return own_complaint(text, cause, under=loc)
    if details["type"] == "extra_forbidden":
        return _unknown_key(text, model, loc)
    if details["type"] == "enum":
        expected = _QUOTED.findall(str(context.get("expected", "")))
        return text.error(
            f"unknown value {given!r}", fix=did_you_mean(str(given), expected), key=loc
        )
    problem, fix = _KINDS.get(details["type"], (_in_words(details), None))
    return text.error(problem, fix=fix, key=loc)


def _in_words(details: ErrorDetails) -> str:
    """Return pydantic's message as the end of a sentence that starts with the key."""
    message = details["msg"].removeprefix("Value error, ")
    message = re.sub(r"^(Input|String|Tuple|Mapping) should (be|have|match)", r"must \2", message)
    given: object = details["input"]
    shown = f", not {given!r}" if isinstance(given, (int, float, str)) else ""
    return f"{message[0].lower()}{message[1:]}{shown}"


def _unknown_key(text: Text, model: type[WrittenLayer], loc: KeyPath) -> ConfigError:
    word = str(loc[-1])
    if len(loc) == 1 and word in model.MISPLACED:
        problem = f"the {model.KIND} layer has no {word}"
        return text.error(problem, fix=model.MISPLACED[word], key=loc)
    known = _owner(model, loc).model_fields.keys()
    return text.error("unknown key", fix=did_you_mean(word, known), key=loc)


def _owner(model: type[WrittenLayer], loc: KeyPath) -> type[BaseModel]:
    """Return the model that refused the last part of the key."""
    if len(loc) == 1:
        return model
    if loc[0] in {"budget", "budgets"}:
        return Budget
    return Example if "match" in loc or "not_match" in loc else Rule


def _element(data: JsonValue, key: KeyPath, last: str | int | None) -> str | None:
    """Return the text that stands at the key, to find its line by."""
    at = data
    for part in key:
        at = _step(at, part)
    if isinstance(at, dict):
        at = at.get("tool")
    if isinstance(at, str):
        return at
    return last if isinstance(last, str) else None


def _step(at: JsonValue, part: str | int) -> JsonValue:
    if isinstance(at, dict):
        return at.get(str(part))
    if isinstance(at, list) and isinstance(part, int) and part < len(at):
        return at[part]
    return None
