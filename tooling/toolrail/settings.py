"""Everything an operator can set, and the only place that knows the variables.

Is: names, units, defaults, bounds and reasons of all settings; the variables that a child process
may inherit. Is not: policy (TOML files, `toolrail.policy`), nor what a run or a call brings along.
Above: `main` of every program, which calls `Settings.from_env()` once and hands values down.
Below: pydantic-settings.
"""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from toolrail.environment import environ
from toolrail.errors import ConfigError, SecretMissing
from toolrail.redaction import secrets_of_url
from toolrail.urls import without_password

PREFIX = "TOOLRAIL_"
DAY_S = 86_400.0
SECRET_MIN_CHARS = 16
"""Shorter keys can be guessed offline from one doorbell and its MAC."""

SAFE_VARIABLES = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TERM", "TMPDIR", "TZ")
"""What a child process that is not ours may inherit; nothing here holds a credential."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Bytes = Annotated[int, Field(ge=1)]


class Settings(BaseModel):
    """The settings of one process, checked and frozen.

    The constructor takes values and never looks at the environment; `from_env` does. A variable
    is the field's name in capitals after `TOOLRAIL_`; an empty variable counts as not set; lists
    are separated by commas.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    # Redis and the broker
    redis_url: str = Field(default="redis://127.0.0.1:6379/0", repr=False)
    """Where the ledger lives: redis://, rediss:// or unix://. Redis 7.0 or newer, or Valkey."""
    redis_password_file: Path | None = None
    """File with the password of the user named in `redis_url`, which then has none itself."""
    broker_url: str | None = Field(default=None, repr=False)
    """Where doorbells travel, any kombu URL. None: the same Redis, which rings in the same step."""
    key_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}:$")] = "toolrail:"
    """First part of every key, ending in a colon. Two clusters in one Redis differ only here."""
    redis_timeout_s: Seconds = 5.0
    """Patience for one reply. Longer hides an outage, shorter turns a slow fsync into one."""
    transport: Literal["batch", "stock"] = "batch"
    """How workers pop doorbells from Redis: many at a time, or kombu's own one by one."""
    admission_memory_ratio: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Share of Redis maxmemory above which new calls are refused; finishing needs the rest."""

    # The shared secret
    secret: SecretStr | None = None
    """HMAC key of doorbells, one for clients and workers, at least 16 characters. No default."""
    secret_file: Path | None = None
    """File that holds the secret, as container platforms mount it. Not together with `secret`."""

    # Places
    state_dir: Path = Path(".toolrail")
    """Where `toolrail up` keeps its Redis data, sockets, secret and logs."""
    workspace_root: Path = Path(".toolrail/workspaces")
    """Parent of the run workspaces that workspace tools may touch, and of nothing else."""
    policy_dir: Path | None = None
    """Folder of policy TOML files. None: the built-in one, which asks before foreign tools."""
    tool_modules: Annotated[tuple[str, ...], NoDecode] = ()
    """Import names of modules with tools, besides those installed as entry points."""
    mcp_servers_file: Path | None = None
    """JSON file with `mcpServers`, as desktop MCP hosts write it. None: no MCP servers."""

    # What runs read
    chat_dir: Path = Path(".toolrail/chats")
    """Where chats are kept, a SQLite file each, unless `chat_url` names a database."""
    chat_url: str | None = Field(default=None, repr=False)
    """PostgreSQL database with the chats: postgresql://. None: SQLite files in `chat_dir`."""
    skill_dir: Path | None = None
    """Folder with a folder for each skill, which holds its SKILL.md. None: no skills."""
    skill_call_chars: Count = 20_000
    """Characters of skills that one call reads."""
    skill_run_chars: Count = 80_000
    """Characters of skills that one run reads, in all."""
    worldinfo_dir: Path | None = None
    """Folder with the activated world info of runs, `<run>.json`. None: there is none."""

    # Calls and runs
    inline_args_bytes: Bytes = 8_192
    """Largest arguments kept inside the call record; larger ones become a blob."""
    inline_result_bytes: Bytes = 65_536
    """Largest result kept inside the call record; larger ones become a blob."""
    call_deadline_s: Seconds = 600.0
    """From dispatch to the last moment a call may end, all attempts and waiting included."""
    max_attempts: Annotated[int, Field(ge=1, le=10)] = 2
    """Starts of one call. Only read-only and idempotent tools are ever started again."""
    approval_expiry_s: Annotated[float, Field(ge=10, le=DAY_S)] = 600.0
    """An approval nobody decided by then is a refusal."""
    login_is_person: bool = True
    """Whether commands that decide name the login where no `--by` names anybody. Not in the image,
    where all share one login."""
    retention_s: Seconds = 7 * DAY_S
    """How long a run, its calls and its journal stay after it ended."""
    blob_ttl_s: Seconds = 8 * DAY_S
    """How long a blob stays after its last write; outlives the records that refer to it."""

    # Workers
    slots: Count = 200
    """Calls one worker process runs at once; they mostly wait for others."""
    thread_slots: Count = 16
    """Threads for our own blocking file and store tools, of the `slots`."""
    process_children: Count = 2
    """Children that run a team's synchronous functions and can be killed. About one per core."""
    process_child_calls: Count = 1_000
    """Calls after which a child is replaced, because other people's code leaks."""
    process_memory_bytes: Annotated[int, Field(ge=0)] = 2_147_483_648
    """Address space of a child, and of each process it starts. 0: no limit."""
    lease_s: Seconds = 30.0
    """A worker that did not renew for this long has lost its calls."""
    renew_s: Seconds = 10.0
    """How often leases are renewed; two renewals may fail before a lease is lost."""
    drain_s: Seconds = 30.0
    """On SIGTERM, how long running calls may finish before they are cancelled."""
    watchdog_s: Seconds = 60.0
    """A worker that made no progress for this long on a queue with work exits for a new one."""
    loop_lag_limit_s: Seconds = 15.0
    """An event loop blocked for this long cannot renew leases in time, so the worker exits."""
    announce_s: Seconds = 10.0
    """How often a worker repeats which tools it can run; after three misses it counts as gone."""
    reaper_interval_s: Seconds = 1.0
    """How often the elected reaper looks for lost doorbells, leases, approvals and deadlines."""
    ring_grace_s: Seconds = 2.0
    """A queued call younger than this is not rung again; its doorbell may still be on the way."""

    # Observability
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is written."""
    log_format: Literal["text", "json"] = "text"
    """Text for a person at a terminal, JSON lines for a collector."""
    build: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:+-]{0,64}$")] = ""
    """Which build runs, such as a commit or an image tag, for operators who roll one out."""
    metrics_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address of this process that shows metrics and health. Everybody who reaches it may read."""
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Port of /metrics, /healthz and /readyz. None: they are not served. 0: any free one."""

    @field_validator("tool_modules", mode="before")
    @classmethod
    def _split_commas(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(part.strip() for part in value.split(",") if part.strip())

    @field_validator(
        "redis_password_file",
        "secret_file",
        "state_dir",
        "workspace_root",
        "policy_dir",
        "mcp_servers_file",
        "chat_dir",
        "skill_dir",
        "worldinfo_dir",
    )
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser()

    @field_validator("redis_url")
    @classmethod
    def _check_redis_url(cls, value: str) -> str:
        if urlsplit(value).scheme not in {"redis", "rediss", "unix"}:
            raise ValueError("must start with redis://, rediss:// or unix://")
        return value

    @field_validator("chat_url")
    @classmethod
    def _check_chat_url(cls, value: str | None) -> str | None:
        if value is not None and urlsplit(value).scheme not in {"postgresql", "postgres"}:
            raise ValueError("must start with postgresql://")
        return value

    @field_validator("secret")
    @classmethod
    def _check_secret(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < SECRET_MIN_CHARS:
            raise ValueError(f"must have at least {SECRET_MIN_CHARS} characters")
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.renew_s * 2 >= self.lease_s:
            raise ValueError("TOOLRAIL_RENEW_S must be less than half of TOOLRAIL_LEASE_S")
        if self.loop_lag_limit_s >= self.lease_s:
            raise ValueError("TOOLRAIL_LOOP_LAG_LIMIT_S must be less than TOOLRAIL_LEASE_S")
        if self.blob_ttl_s < self.retention_s:
            raise ValueError("TOOLRAIL_BLOB_TTL_S must not be less than TOOLRAIL_RETENTION_S")
        return self

    @classmethod
    def from_env(cls) -> Self:
        """Return the settings of this process.

        Raises:
            ConfigError: A TOOLRAIL_ variable is unknown or has a bad value; all of them are told.
        """
        _refuse_unknown_variables()
        values: dict[str, object] = EnvSettingsSource(_Environment)()
        if "secret_file" in values:
            values["secret"] = _read_secret(Path(str(values["secret_file"])), values)
        if "redis_password_file" in values:
            file = Path(str(values["redis_password_file"]))
            url = str(values.get("redis_url", cls.model_fields["redis_url"].default))
            complete = fill_password(url, file)
            if values.get("broker_url") == url:
                # The same Redis, and it must not look like another one.
                values["broker_url"] = complete
            values["redis_url"] = complete
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problems = [_explain(details) for details in error.errors(include_url=False)]
            raise ConfigError("\n".join(problems)) from None

    def to_env(self) -> dict[str, str]:
        """Return the variables that make a child process see these settings, secret included.

        Only what differs from the default is named, and every path, absolute: the child may
        work in another directory. What came from a file is left to the child to read there.
        """
        variables: dict[str, str] = {}
        for name, field in type(self).model_fields.items():
            value: object = getattr(self, name)
            if self.redis_password_file is not None and value == self.redis_url:
                value = without_password(self.redis_url)
            usual = value == field.default and not isinstance(value, Path)
            if usual or (name == "secret" and self.secret_file is not None):
                continue
            variables[variable_of(name)] = _spell(value)
        return variables

    @property
    def has_foreign_broker(self) -> bool:
        """Whether doorbells travel outside the ledger's Redis."""
        return self.broker_url not in (None, self.redis_url)

    def secrets(self) -> tuple[str, ...]:
        """Return every value in here that must not be written down or shown."""
        own = () if self.secret is None else (self.secret.get_secret_value(),)
        urls = (self.redis_url, self.broker_url, self.chat_url)
        return (*own, *(secret for url in urls for secret in secrets_of_url(url)))

    def require_secret(self) -> bytes:
        """Return the HMAC key of doorbells.

        Raises:
            SecretMissing: There is none. Clients and workers do not start without one.
        """
        if self.secret is None:
            raise SecretMissing
        return self.secret.get_secret_value().encode()


# The two bases type their `model_config` with different TypedDicts; at run time both are dicts.
class _Environment(BaseSettings, Settings):  # pyright: ignore[reportIncompatibleVariableOverride]
    """The same fields, readable from the environment."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True)


def variable_of(field: str) -> str:
    """Return the environment variable of a settings field."""
    return PREFIX + field.upper()


def fill_password(url: str, file: Path) -> str:
    """Return the URL with the password that the file holds.

    Args:
        url: Of Redis, with a user name or for the default user.
        file: Holds the password as its only line.

    Raises:
        ConfigError: The URL has a password already, or the file has none or cannot be read.
    """
    key = variable_of("redis_password_file")
    parts = urlsplit(url)
    if parts.password is not None:
        problem = "is set together with a password in TOOLRAIL_REDIS_URL."
        raise ConfigError(problem, fix="Keep one of them.", key=key)
    password = _read_file(file, key=key)
    if not password:
        raise ConfigError(f"{file} is empty.", fix="Write the password into it.", key=key)
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


def safe_environment(extra: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables a foreign child process may inherit: harmless ones and those named."""
    names = {*SAFE_VARIABLES, *extra}
    return {name: value for name, value in environ().items() if name in names}


def own_environment() -> dict[str, str]:
    """Return all variables but ours, for a child that is Toolrail itself; add `to_env()`."""
    return {name: value for name, value in environ().items() if not _is_ours(name)}


def read_variable(name: str) -> str | None:
    """Return a variable that a configuration file refers to, such as `${API_KEY}`."""
    return environ().get(name)


def _is_ours(name: str) -> bool:
    return name.upper().startswith(PREFIX)


def _refuse_unknown_variables() -> None:
    known = {variable_of(field) for field in Settings.model_fields}
    problems: list[str] = []
    for name in sorted(filter(_is_ours, environ())):
        if name in known:
            continue
        near = difflib.get_close_matches(name[len(PREFIX) :].lower(), Settings.model_fields, n=1)
        fix = f"Did you mean {variable_of(near[0])}?" if near else "Remove it."
        problems.append(f"{name} is not a setting of Toolrail. {fix}")
    if problems:
        raise ConfigError("\n".join(problems))


def _read_secret(file: Path, values: dict[str, object]) -> str:
    key = variable_of("secret_file")
    if "secret" in values:
        raise ConfigError("is set together with TOOLRAIL_SECRET.", fix="Keep one of them.", key=key)
    return _read_file(file, key=key)


def _read_file(file: Path, *, key: str) -> str:
    """Return what a setting's file holds, without the newline that editors put at its end."""
    try:
        return file.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        fix = "Name a file that this process may read."
        raise ConfigError(f"{file} cannot be read: {reason}.", fix=fix, key=key) from None


def _explain(details: ErrorDetails) -> str:
    """Say which variable is wrong, how, and what to do; never repeat a value that may be secret."""
    problem = re.sub(r"^Value error, ", "", details["msg"])
    if not details["loc"]:
        return f"{problem}. Change one of them."
    name = str(details["loc"][0])
    field = Settings.model_fields[name]
    found = f", found {details['input']!r}" if field.repr and name != "secret" else ""
    usual = _spell(field.default) if field.default not in (None, ()) else "nothing"
    return f"{variable_of(name)}: {problem}{found}. Correct or unset it; the default is {usual}."


def _spell(value: object) -> str:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value.absolute())
        case tuple():
            return ",".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return str(value)
