"""Settings: where values come from, what is refused and how the refusal reads.

Is: the environment contract. Is not: what any setting does.
Above: nothing. Below: `toolrail.settings`.
"""

from pathlib import Path

import pytest
import redis
from pydantic import SecretStr, ValidationError

from tests.promises import promise
from toolrail.errors import ConfigError, SecretMissing
from toolrail.settings import (
    Settings,
    own_environment,
    read_variable,
    safe_environment,
    variable_of,
)
from toolrail.urls import redact_url

SECRET = "s" * 32


def refusal() -> str:
    """Return the message with which the environment is refused."""
    with pytest.raises(ConfigError) as caught:
        Settings.from_env()
    return str(caught.value)


def test_an_empty_environment_gives_the_defaults() -> None:
    """Everything has a default; only the secret has none."""
    assert Settings.from_env() == Settings()
    assert Settings().secret is None


def test_the_constructor_never_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests and embedders get exactly what they pass."""
    monkeypatch.setenv("TOOLRAIL_SLOTS", "7")

    assert Settings().slots == 200


def test_variables_are_read_with_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, paths, lists and secrets arrive as such; empty means not set."""
    monkeypatch.setenv("TOOLRAIL_SLOTS", "7")
    monkeypatch.setenv("TOOLRAIL_LEASE_S", "45.5")
    monkeypatch.setenv("TOOLRAIL_POLICY_DIR", "/etc/policy")
    monkeypatch.setenv("TOOLRAIL_TOOL_MODULES", "a.b, c ,")
    monkeypatch.setenv("TOOLRAIL_SECRET", SECRET)
    monkeypatch.setenv("TOOLRAIL_BROKER_URL", "")

    settings = Settings.from_env()

    assert (settings.slots, settings.lease_s) == (7, 45.5)
    assert settings.policy_dir == Path("/etc/policy")
    assert settings.tool_modules == ("a.b", "c")
    assert settings.require_secret() == SECRET.encode()
    assert settings.broker_url is None


def test_an_unknown_variable_is_refused_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A typing error must not silently leave the default in force."""
    monkeypatch.setenv("TOOLRAIL_SLOT", "7")
    monkeypatch.setenv("TOOLRAIL_QQQQQQ", "1")

    message = refusal()

    assert "TOOLRAIL_SLOT is not a setting of Toolrail. Did you mean TOOLRAIL_SLOTS?" in message
    assert "TOOLRAIL_QQQQQQ is not a setting of Toolrail. Remove it." in message


def test_a_variable_in_small_letters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two spellings of one name would have two values one day."""
    monkeypatch.setenv("toolrail_slots", "7")

    assert "Did you mean TOOLRAIL_SLOTS?" in refusal()


@promise("settings.refused-by-name")
def test_all_bad_values_are_told_at_once_with_name_fault_and_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One start shows every mistake."""
    monkeypatch.setenv("TOOLRAIL_SLOTS", "many")
    monkeypatch.setenv("TOOLRAIL_LOG_LEVEL", "loud")
    monkeypatch.setenv("TOOLRAIL_MAX_ATTEMPTS", "99")

    lines = refusal().splitlines()

    assert len(lines) == 3
    slots = next(line for line in lines if line.startswith("TOOLRAIL_SLOTS: "))
    assert "valid integer" in slots
    assert "found 'many'. Correct or unset it; the default is 200." in slots


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TOOLRAIL_SECRET", "hunter2"),
        ("TOOLRAIL_REDIS_URL", "http://user:hunter2@host"),
    ],
)
def test_a_refused_credential_is_not_repeated(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Error messages end in logs."""
    monkeypatch.setenv(variable, value)

    message = refusal()

    assert message.startswith(f"{variable}: must ")
    assert "hunter2" not in message


def test_the_repr_shows_no_credential() -> None:
    """Settings are logged at start."""
    settings = Settings(redis_url="redis://:hunter2@host", secret=SecretStr("hunter2" * 3))

    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("field", "value", "other"),
    [
        ("renew_s", 15.0, "LEASE_S"),
        ("loop_lag_limit_s", 30.0, "LEASE_S"),
        ("blob_ttl_s", 60.0, "RETENTION_S"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    field: str, value: float, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that cannot be renewed in time, a blob that dies before its record: never start."""
    monkeypatch.setenv(variable_of(field), str(value))

    message = refusal()

    assert variable_of(field) in message
    assert f"TOOLRAIL_{other}. Change one of them." in message


def test_the_secret_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Container platforms mount secrets; the trailing newline is not part of it."""
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n", encoding="utf-8")
    monkeypatch.setenv("TOOLRAIL_SECRET_FILE", str(file))

    assert Settings.from_env().require_secret() == SECRET.encode()


def test_a_secret_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says which variable and which file."""
    monkeypatch.setenv("TOOLRAIL_SECRET_FILE", str(tmp_path / "absent"))

    assert "TOOLRAIL_SECRET_FILE: " in refusal()
    assert "absent cannot be read: No such file" in refusal()


def test_a_secret_from_two_places_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guessing which one wins would break doorbells on half of the hosts."""
    monkeypatch.setenv("TOOLRAIL_SECRET_FILE", str(tmp_path / "secret"))
    monkeypatch.setenv("TOOLRAIL_SECRET", SECRET)

    assert "set together with TOOLRAIL_SECRET" in refusal()


URLS = (
    "redis://worker@h:7/1",
    "rediss://h/2?ssl_cert_reqs=required",
    "unix://worker@/run/r.sock?db=3",
    "unix:///run/r.sock?db=3",
)


@pytest.mark.parametrize("url", URLS)
def test_the_password_of_redis_may_come_from_a_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any character may be in it; a child process finds the file, not the password."""
    file = tmp_path / "password"
    file.write_text("p@ss/:w %\n", encoding="utf-8")
    monkeypatch.setenv("TOOLRAIL_REDIS_URL", url)
    monkeypatch.setenv("TOOLRAIL_REDIS_PASSWORD_FILE", str(file))

    settings = Settings.from_env()
    pool = redis.ConnectionPool.from_url(settings.redis_url)

    assert pool.connection_kwargs["password"] == "p@ss/:w %"
    assert pool.connection_kwargs.get("username") == ("worker" if "worker" in url else None)
    assert settings.to_env()["TOOLRAIL_REDIS_URL"] == url
    assert "p%40ss" not in repr(settings)


def test_the_default_redis_may_have_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The URL need not be repeated for it, and the broker stays the same Redis."""
    file = tmp_path / "password"
    file.write_text("hush", encoding="utf-8")
    monkeypatch.setenv("TOOLRAIL_REDIS_PASSWORD_FILE", str(file))
    monkeypatch.setenv("TOOLRAIL_BROKER_URL", "redis://127.0.0.1:6379/0")

    settings = Settings.from_env()

    assert settings.redis_url == settings.broker_url == "redis://:hush@127.0.0.1:6379/0"
    assert "hush" not in " ".join(settings.to_env().values())


def test_a_password_from_two_places_or_from_nowhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the variable, and no password."""
    file = tmp_path / "password"
    monkeypatch.setenv("TOOLRAIL_REDIS_PASSWORD_FILE", str(file))
    assert "TOOLRAIL_REDIS_PASSWORD_FILE: " in refusal()
    assert "password cannot be read: No such file" in refusal()

    file.write_text("\n", encoding="utf-8")
    assert "password is empty. Write the password into it." in refusal()

    monkeypatch.setenv("TOOLRAIL_REDIS_URL", "redis://:hunter2@h")
    assert "set together with a password in TOOLRAIL_REDIS_URL" in refusal()
    assert "hunter2" not in refusal()


def test_without_a_secret_clients_and_workers_do_not_start() -> None:
    """The sentence tells how to get one."""
    with pytest.raises(SecretMissing, match="Set TOOLRAIL_SECRET or TOOLRAIL_SECRET_FILE"):
        Settings().require_secret()


def test_settings_are_frozen() -> None:
    """Nobody changes a setting under a running process."""
    with pytest.raises(ValidationError):
        Settings().__setattr__("slots", 3)  # an assignment that type checkers let pass


def test_a_child_process_sees_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`to_env` and `from_env` are inverse, paths made absolute."""
    settings = Settings(
        redis_url="redis://:pw@h/1",
        slots=7,
        secret=SecretStr(SECRET),
        tool_modules=("a", "b"),
        process_memory_bytes=0,
        workspace_root=tmp_path,
    )
    for name, value in settings.to_env().items():
        monkeypatch.setenv(name, value)

    child = Settings.from_env()

    usual = {"state_dir": settings.state_dir, "chat_dir": settings.chat_dir}
    assert child.state_dir.is_absolute()
    assert child.model_copy(update=usual) == settings
    assert "TOOLRAIL_LEASE_S" not in settings.to_env()


def test_a_foreign_child_inherits_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP servers get harmless variables and those named for them."""
    monkeypatch.setenv("TOOLRAIL_SECRET", SECRET)
    monkeypatch.setenv("CLOUD_TOKEN", "t")
    monkeypatch.setenv("WANTED", "w")

    assert safe_environment(["WANTED"])["WANTED"] == "w"
    assert "PATH" in safe_environment()
    assert not {"TOOLRAIL_SECRET", "CLOUD_TOKEN"} & safe_environment().keys()
    assert "TOOLRAIL_SECRET" not in own_environment()
    assert own_environment()["CLOUD_TOKEN"] == read_variable("CLOUD_TOKEN") == "t"
    assert read_variable("ABSENT_VARIABLE") is None


def test_a_url_is_logged_without_its_password() -> None:
    """Both with and without a user name; a URL without a password stays as it is."""
    assert redact_url("redis://:pw@h:1/0") == "redis://:***@h:1/0"
    assert redact_url("amqp://me:pw@h//") == "amqp://me:***@h//"
    assert redact_url("redis://h:1/0") == "redis://h:1/0"


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_says_its_reason(name: str) -> None:
    """A default without a reason cannot be changed with confidence."""
    description = Settings.model_fields[name].description

    assert description is not None
    assert len(description.split()) >= 5
