"""Read the servers file: the `mcpServers` JSON that desktop MCP hosts already have.

Is: a strict reading of what each server's entry may say, with our own keys under `toolrail`.
Is not: starting anything, or reading the environment's values (`launch.py`).
Above: `executor.py`, CLI. Below: `jsonfile.py`.

A wrong entry is an error of the whole file, because an operator reads it at start. A server that
is right but cannot be used here (HTTP) is listed as refused and harms no other.
"""

import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    field_validator,
)
from pydantic_core import ErrorDetails

from toolrail.errors import ConfigError
from toolrail.metadata import read_words
from toolrail_schemas import Permission, is_secret_name
from toolrail_workers.mcp.jsonfile import line_of, read_object

SERVER_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
ROOT_KEYS = ("mcpServers", "servers")
"""`servers` is what VS Code calls it."""
REFERENCE = re.compile(r"\$\{(?:env:)?([^}]*)\}")
VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
OWN_VARIABLES = "TOOLRAIL_"
SCHEMES = frozenset({"basic", "bearer", "token"})
SECRET_MIN_CHARS = 8
"""A shorter value of a variable that has no secret's name is a word such as `debug`."""

HTTP_LATER = (
    "it is reached by URL, and HTTP transports come in a later version. "
    "Use a stdio server, or remove it from the file."
)
FOREIGN_KEYS = {
    "envFile": "is not read. List the variables under env.",
    "autoApprove": "is not honoured. Approvals are decided by the policy folder.",
    "alwaysAllow": "is not honoured. Approvals are decided by the policy folder.",
    "timeout": "has no agreed unit. Use toolrail.call_timeout_s.",
}

Piece = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
VariableName = Annotated[str, StringConstraints(pattern=VARIABLE_NAME)]
Seconds = Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)]
ToolName = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class _Closed(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True
    )


class ServerOptions(_Closed):
    """What only Toolrail knows of a server; the `toolrail` key of its entry."""

    trusted: bool = False
    """Believe the server's own hints about its tools. Otherwise they may only tighten."""
    permission: Permission = Permission.APPROVAL_REQUIRED
    """The weakest policy layer for its tools."""
    tool_permission: dict[ToolName, Permission] = Field(default_factory=dict)
    """The same for single tools, by the server's own names."""
    connect_timeout_s: Seconds = 30.0
    """From start to the first listing; `uvx` and `npx` may have to download."""
    call_timeout_s: Annotated[float, Field(ge=0.1, le=600, allow_inf_nan=False)] | None = None
    """Default time limit of a call. None: that of the source, 30 s."""
    max_concurrency: Annotated[int, Field(ge=1, le=1_000)] = 4
    """Calls at once, per worker; many stdio servers have one thread."""
    liveness_s: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)] = 15.0
    """How often an idle server is asked whether it lives; 0 never asks."""
    env_passthrough: tuple[VariableName, ...] = ()
    """Variables of the worker that the server may have; only these may be referred to as ${X}."""
    idempotent_tools: frozenset[ToolName] = frozenset()
    """Your word that these may run twice; a lost attempt is then retried."""
    read_only_tools: frozenset[ToolName] = frozenset()
    """Your word that these change nothing."""
    surface: dict[str, JsonValue] = Field(default_factory=dict)
    """Surface metadata for tools that say nothing themselves."""
    tool_surface: dict[ToolName, dict[str, JsonValue]] = Field(default_factory=dict)
    """Surface metadata that outranks everything the server says."""

    @field_validator("env_passthrough")
    @classmethod
    def _keep_ours(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if any(name.upper().startswith(OWN_VARIABLES) for name in names):
            raise ValueError(
                f"{OWN_VARIABLES} variables hold our own secrets and are not handed on"
            )
        return names

    @field_validator("surface")
    @classmethod
    def _known_words(cls, words: dict[str, JsonValue]) -> dict[str, JsonValue]:
        warnings: list[str] = []
        read_words(words, warnings)
        if warnings:
            raise ValueError("; ".join(warnings))
        return words

    @field_validator("tool_surface")
    @classmethod
    def _known_tool_words(
        cls, tools: dict[str, dict[str, JsonValue]]
    ) -> dict[str, dict[str, JsonValue]]:
        for words in tools.values():
            cls._known_words(words)
        return tools


class _Entry(_Closed):
    """One server, as desktop hosts write it."""

    type: Literal["stdio"] = "stdio"
    command: Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]*$")]
    args: tuple[Piece, ...] = ()
    env: dict[VariableName, Piece] = Field(default_factory=dict)
    cwd: Piece | None = None
    disabled: bool = False
    toolrail: ServerOptions = ServerOptions()


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """One stdio server that may be started. References to variables are still unresolved."""

    id: str
    """Names the server everywhere: in tool names, metrics, refs."""
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    options: ServerOptions = field(default_factory=ServerOptions)


@dataclass(frozen=True, kw_only=True)
class RefusedServer:
    """A server of the file that cannot be used, and why."""

    id: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ServersFile:
    """Everything one file asks for; disabled servers are left out."""

    servers: tuple[ServerConfig, ...] = ()
    refused: tuple[RefusedServer, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that the file itself holds and nobody may read elsewhere: variables and headers."""


def load_servers_file(file: Path) -> ServersFile:
    """Return what the file says.

    Raises:
        ConfigError: It cannot be read, or is wrong; names file, line and key.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(
            f"cannot be read: {reason}.", fix="Correct TOOLRAIL_MCP_SERVERS_FILE.", file=file
        ) from None
    return parse_servers_file(text, file=file)


def parse_servers_file(text: str, *, file: Path) -> ServersFile:
    """Return what the text of a servers file says.

    Raises:
        ConfigError: It is wrong; names file, line and key.
    """
    document = read_object(text, file=file)
    # Other keys of the root are the host application's own settings.
    roots = [key for key in ROOT_KEYS if key in document]
    if len(roots) != 1:
        raise ConfigError('must have one key "mcpServers".', file=file, line=1)
    entries = document[roots[0]]
    reader = _Reader(text, file, roots[0])
    if not isinstance(entries, dict):
        raise reader.error("must be an object of servers by name.")
    servers: list[ServerConfig] = []
    refused: list[RefusedServer] = []
    for server_id, entry in entries.items():
        found = reader.server(server_id, entry)
        if isinstance(found, ServerConfig):
            servers.append(found)
        elif found is not None:
            refused.append(found)
    return ServersFile(
        servers=tuple(servers),
        refused=tuple(refused),
        secrets=tuple(_secrets_in(entries)),
    )


def may_be_secret(name: str, value: str) -> bool:
    """Return whether the value of a variable or header is kept out of sight.

    Whoever configures a server knows, but does not say. So everything counts whose name announces
    a secret, and else all but short words and places that exist here.
    """
    if is_secret_name(name):
        return True
    is_place = value.startswith("/") and os.path.lexists(value)
    return len(value) >= SECRET_MIN_CHARS and not is_place


def _secrets_in(entries: Mapping[str, JsonValue]) -> Iterator[str]:
    for entry in entries.values():
        for key in ("env", "headers"):
            values = entry.get(key) if isinstance(entry, dict) else None
            for name, value in values.items() if isinstance(values, dict) else ():
                if not isinstance(value, str) or REFERENCE.search(value):
                    continue
                if may_be_secret(name, value):
                    scheme, _, rest = value.partition(" ")
                    # `Bearer x`: by itself x is the secret.
                    yield rest if scheme.lower() in SCHEMES else value


class _Reader:
    """Turns entries into configs and wrong ones into errors that name their place."""

    def __init__(self, text: str, file: Path, root: str) -> None:
        self._text = text
        self._file = file
        self._root = root

    def error(self, problem: str, *path: str | int, fix: str | None = None) -> ConfigError:
        full = (self._root, *path)
        return ConfigError(
            problem,
            fix=fix,
            file=self._file,
            line=line_of(self._text, full),
            key=".".join(map(str, full)),
        )

    def server(self, server_id: str, raw: JsonValue) -> ServerConfig | RefusedServer | None:
        self._check_id(server_id)
        if not isinstance(raw, dict):
            raise self.error("must be an object.", server_id)
        if raw.get("disabled") is True:
            return None
        if "url" in raw or raw.get("type") in ("http", "sse", "streamable-http", "streamableHttp"):
            return RefusedServer(id=server_id, reason=HTTP_LATER)
        try:
            entry = _Entry.model_validate_json(json.dumps(raw))
        except ValidationError as error:
            raise self._explain(server_id, error) from None
        self._check_references(server_id, entry)
        return ServerConfig(
            id=server_id,
            command=entry.command,
            args=entry.args,
            env=entry.env,
            cwd=entry.cwd,
            options=entry.toolrail,
        )

    def _check_id(self, server_id: str) -> None:
        if SERVER_ID.fullmatch(server_id):
            return
        slug = re.sub(r"[^a-z0-9]+", "-", server_id.lower()).strip("-")[:32]
        example = f' Rename it, for example to "{slug}".' if slug else ""
        raise self.error(
            "is not a server name: 1 to 32 of a-z, 0-9 and -, not starting with -.",
            server_id,
            fix=example.strip() or None,
        )

    def _explain(self, server_id: str, error: ValidationError) -> ConfigError:
        details = error.errors(include_url=False)
        first = next((item for item in details if item["type"] == "extra_forbidden"), details[0])
        path = [server_id, *first["loc"]]
        if first["type"] == "extra_forbidden":
            return self.error(_unknown_key(first), *path)
        if first["type"] == "missing":
            return self.error(f'has no "{path[-1]}".', *path[:-1])
        return self.error(f"{first['msg'].removeprefix('Value error, ')}.", *path)

    def _check_references(self, server_id: str, entry: _Entry) -> None:
        allowed = entry.toolrail.env_passthrough
        for path, text in _texts(entry):
            for reference in REFERENCE.finditer(text):
                name = reference.group(1)
                if not re.match(VARIABLE_NAME, name):
                    raise self.error(
                        f"{reference.group(0)} is not understood.",
                        server_id,
                        *path,
                        fix="Only ${NAME} and ${env:NAME} of an environment variable are.",
                    )
                if name not in allowed:
                    raise self.error(
                        f"refers to {reference.group(0)}, which this server may not have.",
                        server_id,
                        *path,
                        fix=f'Add "{name}" to its toolrail.env_passthrough.',
                    )


def _texts(entry: _Entry) -> Iterator[tuple[tuple[str | int, ...], str]]:
    yield ("command",), entry.command
    for index, argument in enumerate(entry.args):
        yield ("args", index), argument
    for name, value in entry.env.items():
        yield ("env", name), value
    if entry.cwd is not None:
        yield ("cwd",), entry.cwd


def _unknown_key(details: ErrorDetails) -> str:
    key = str(details["loc"][-1])
    if len(details["loc"]) == 1 and key in FOREIGN_KEYS:
        return FOREIGN_KEYS[key]
    model: type[BaseModel] = _Entry if len(details["loc"]) == 1 else ServerOptions
    known = sorted(model.model_fields)
    near = difflib.get_close_matches(key, known, n=1)
    guess = f' Did you mean "{near[0]}"?' if near else ""
    return f"is not a known key; known are {', '.join(known)}.{guess}"
