"""Turn a function's signature into the one schema its arguments are held to.

Is: the input schema of a tool, and the strict check of a call's arguments right before the
function runs. Is not: the check against the schema at dispatch (`validation.py`), or the decorator
(`tools.py`).
Above: `tools.py`. Below: pydantic.
"""

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, UnionType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic import create_model as create_pydantic_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, to_json

from toolrail.errors import ConfigError, ToolError
from toolrail_schemas import JsonObject

_ERRORS_SHOWN = 8
_ARGUMENT_LINE = re.compile(
    r"^(?P<indent>\s+)\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)$"
)
_SECTION = re.compile(r"^(?P<name>[A-Z][A-Za-z ]*):\s*$")
_DROPPED_SECTIONS = frozenset(
    {"Args", "Arguments", "Parameters", "Returns", "Yields", "Raises", "Example", "Examples"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a function takes from a call, checked once at decoration."""

    schema: JsonObject
    """The tool's `input_schema`."""
    context_name: str | None
    """The parameter that receives the `ToolContext`; not part of the schema."""
    model: type[BaseModel]
    fields: Mapping[str, str]
    """Field of `model` to the parameter's name. The two differ, so that a parameter may be called
    `json` or `copy` without hiding a method of the model."""

    def bind(self, arguments: JsonObject) -> dict[str, object]:
        """Return the keyword arguments for the function, every one of its declared type.

        Raises:
            ToolError: `tool.invalid_arguments`, naming each argument that does not fit.
        """
        try:
            checked = self._check(arguments)
        except ValidationError as error:
            raise _invalid_arguments(error) from None
        except PydanticSerializationError:
            raise ToolError(
                "tool.invalid_arguments",
                "The arguments hold text that is not valid Unicode.",
                next_action="Send the arguments again without lone surrogates.",
            ) from None
        return {name: getattr(checked, field) for field, name in self.fields.items()}

    def _check(self, arguments: JsonObject) -> BaseModel:
        sent = to_json(arguments)
        try:
            return self.model.model_validate_json(sent, strict=True)
        except ValidationError:
            # JSON Schema counts 2.0 as an integer and some providers send every number as a
            # float; arguments that passed the schema must not fail here for that.
            whole = to_json(_without_integral_floats(arguments))
            if whole == sent:
                raise
        return self.model.model_validate_json(whole, strict=True)


@dataclass(frozen=True, slots=True)
class Definition:
    """The function a complaint is about, and the tool name it was given."""

    function: Callable[..., object]
    name: str

    def error(self, problem: str, fix: str, *, parameter: str | None = None) -> ConfigError:
        """Return an error that names the place, the function, the parameter and the fix."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        key = self.name if parameter is None else f"{self.name}: parameter {parameter!r}"
        return ConfigError(
            problem,
            fix=fix,
            file=code.co_filename if isinstance(code, CodeType) else None,
            line=code.co_firstlineno if isinstance(code, CodeType) else None,
            key=key,
        )


class _InputSchema(GenerateJsonSchema):
    """JSON Schema without the titles pydantic makes up, and without silent omissions."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        raise ValueError(detail)


def read_parameters(
    function: Callable[..., object], *, name: str, context_type: type
) -> Parameters:
    """Return what `function` takes, by its annotations and the `Args:` of its docstring.

    Raises:
        ConfigError: A parameter cannot be filled from JSON; names function, parameter and fix.
    """
    owner = _Signature(Definition(function, name))
    hints = owner.type_hints()
    documented = argument_descriptions(function.__doc__ or "")
    context_name: str | None = None
    fields: dict[str, str] = {}
    definitions: dict[str, tuple[object, object]] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = owner.hint_of(parameter, hints)
        if _is_context(hint, context_type):
            if context_name is not None:
                raise owner.error(parameter.name, "is a second ToolContext.", "Keep one of them.")
            context_name = parameter.name
            continue
        field = f"p{len(fields)}"
        fields[field] = parameter.name
        definitions[field] = owner.field_of(parameter, hint, documented.get(parameter.name))
    model = _build_model(owner, definitions)
    return Parameters(
        schema=_schema_of(owner, model), context_name=context_name, model=model, fields=fields
    )


def describe(docstring: str) -> str:
    """Return a docstring's prose: everything but the sections on arguments and results."""
    kept: list[str] = []
    dropping = False
    for line in inspect.cleandoc(docstring).splitlines():
        section = _SECTION.match(line)
        if section:
            dropping = section["name"] in _DROPPED_SECTIONS
        elif dropping and line and not line[0].isspace():
            dropping = False
        if not dropping:
            kept.append(line)
    return "\n".join(kept).strip()


def argument_descriptions(docstring: str) -> dict[str, str]:
    """Return the text of each argument in a Google-style `Args:` section."""
    found: dict[str, str] = {}
    current: str | None = None
    indent = ""
    inside = False
    for line in inspect.cleandoc(docstring).splitlines():
        section = _SECTION.match(line)
        if section:
            inside = section["name"] in {"Args", "Arguments", "Parameters"}
            current, indent = None, ""
            continue
        entry = _ARGUMENT_LINE.match(line) if inside else None
        if entry and (not indent or entry["indent"] == indent):
            current, indent = str(entry["name"]), str(entry["indent"])
            found[current] = str(entry["text"]).strip()
        elif inside and current is not None and line.strip():
            found[current] = f"{found[current]} {line.strip()}".strip()
    return found


@dataclass(frozen=True, slots=True)
class _Signature:
    """Reads one function's parameters and complains about them by name."""

    definition: Definition

    def error(self, parameter: str | None, problem: str, fix: str) -> ConfigError:
        return self.definition.error(problem, fix, parameter=parameter)

    def type_hints(self) -> dict[str, object]:
        try:
            return typing.get_type_hints(self.definition.function, include_extras=True)
        except NameError as error:
            raise self.error(
                None,
                f"the annotation {error.name!r} is not known in its module.",
                "Define or import the type at module level, outside `if TYPE_CHECKING`.",
            ) from None

    def hint_of(self, parameter: inspect.Parameter, hints: Mapping[str, object]) -> object:
        kind = parameter.kind
        if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            stars = "*" if kind is inspect.Parameter.VAR_POSITIONAL else "**"
            raise self.error(
                stars + parameter.name,
                "takes any number of arguments, which no schema can tell a model.",
                "Write one named parameter for each, or one of a list or dict type.",
            )
        if kind is inspect.Parameter.POSITIONAL_ONLY:
            raise self.error(
                parameter.name,
                "is positional only, but calls carry names.",
                "Remove the `/` from the signature.",
            )
        if parameter.name not in hints:
            fix = f"Write its type, like `{parameter.name}: str`."
            if parameter.name in ("self", "cls"):
                fix = "Decorate a plain function; bind the object inside it."
            raise self.error(parameter.name, "has no type, so it has no schema.", fix)
        return hints[parameter.name]

    def field_of(
        self, parameter: inspect.Parameter, hint: object, documented: str | None
    ) -> tuple[object, object]:
        """Return what pydantic's `create_model` takes for one field."""
        default: object = ... if parameter.default is inspect.Parameter.empty else parameter.default
        info = default if isinstance(default, FieldInfo) else _field_info(hint)
        if info.alias is not None or info.validation_alias is not None:
            raise self.error(
                parameter.name,
                "has an alias.",
                "Name the parameter itself as the model shall see it.",
            )
        said = info.description or _field_info(hint).description
        extra = Field(alias=parameter.name, description=said or documented)
        if isinstance(default, FieldInfo):
            # A `Field(...)` in the place of the default joins the annotation; its own default
            # stays the default, and the alias is added by the outer annotation.
            return Annotated[hint, default, extra], _default_of(default)
        if default is not ...:
            self._check_default(parameter.name, hint, default)
        return Annotated[hint, extra], default

    def _check_default(self, parameter: str, hint: object, default: object) -> None:
        try:
            adapter_of(hint).validate_python(default)
        except (ValidationError, PydanticUserError):
            raise self.error(
                parameter,
                f"has the default {default!r}, which is not of its own type.",
                "Correct the default or widen the type, like `int | None = None`.",
            ) from None


def adapter_of(hint: object) -> TypeAdapter[object]:
    """Return pydantic's validator for a type hint that is known only at run time."""
    return typing.cast("Callable[[object], TypeAdapter[object]]", TypeAdapter)(hint)


def _is_context(hint: object, context_type: type) -> bool:
    if typing.get_origin(hint) in (typing.Union, UnionType):
        return [part for part in typing.get_args(hint) if part is not type(None)] == [context_type]
    return hint is context_type


def _field_info(hint: object) -> FieldInfo:
    return FieldInfo.from_annotation(typing.cast("type[object]", hint))


def _default_of(info: FieldInfo) -> object:
    if info.default_factory is not None:
        return Field(default_factory=info.default_factory)
    return ... if info.is_required() else info.default


def _build_model(
    owner: _Signature, definitions: Mapping[str, tuple[object, object]]
) -> type[BaseModel]:
    build = typing.cast("Callable[..., type[BaseModel]]", create_pydantic_model)
    try:
        return build("Arguments", __config__=ConfigDict(extra="forbid"), **definitions)
    except PydanticUserError as error:
        raise owner.error(
            None,
            f"a parameter has a type pydantic cannot read: {_first_line(str(error))}",
            "Use JSON types, dataclasses, TypedDicts or pydantic models.",
        ) from None


def _schema_of(owner: _Signature, model: type[BaseModel]) -> JsonObject:
    try:
        schema: dict[str, JsonValue] = model.model_json_schema(schema_generator=_InputSchema)
    except ValueError as error:
        raise owner.error(
            None,
            f"no JSON Schema can be made of the signature: {_first_line(str(error))}",
            "Give defaults that JSON can carry (or None) and types that JSON can spell.",
        ) from None
    except PydanticUserError as error:
        raise owner.error(
            None,
            f"a parameter has a type without a JSON form: {_first_line(str(error))}",
            "Use JSON types, dataclasses, TypedDicts or pydantic models.",
        ) from None
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0].rstrip(". ") + "."


def _invalid_arguments(error: ValidationError) -> ToolError:
    problems: list[JsonValue] = []
    lines: list[str] = []
    for details in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in details["loc"]) or "arguments"
        problems.append({"argument": place, "problem": details["msg"]})
        lines.append(f"{place}: {details['msg']}")
    shown = "; ".join(lines[:_ERRORS_SHOWN])
    more = len(lines) - _ERRORS_SHOWN
    return ToolError(
        "tool.invalid_arguments",
        f"The arguments do not fit. {shown}{f'; and {more} more' if more > 0 else ''}.",
        next_action="Correct these arguments and call again.",
        structured={"errors": problems[:_ERRORS_SHOWN]},
    )


def _without_integral_floats(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_without_integral_floats(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_integral_floats(item) for key, item in value.items()}
    return value
