"""The servers file: what it may say, and how wrong entries are told.

Is: `config.py`, `jsonfile.py` and `launch.py` on text alone. Is not: a running server.
Above: nothing. Below: `toolrail_workers.mcp`.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from toolrail.errors import ConfigError
from toolrail.redaction import clean
from toolrail_schemas import Permission
from toolrail_workers.mcp.config import (
    ServerConfig,
    ServersFile,
    load_servers_file,
    parse_servers_file,
)
from toolrail_workers.mcp.jsonfile import line_of
from toolrail_workers.mcp.launch import CannotStart, command_for, explain_start_failure

FILE = Path("servers.json")
Entry = dict[str, JsonValue]


def parsed(**servers: Entry) -> ServersFile:
    return parse_servers_file(json.dumps({"mcpServers": servers}, indent=2), file=FILE)


def only(entry: Entry) -> ServerConfig:
    (server,) = parsed(notes=entry).servers
    return server


def refused(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_servers_file(text, file=FILE)
    return caught.value


def test_the_file_of_a_desktop_host_is_read_as_it_is() -> None:
    """Their other settings at the root are theirs; VS Code's name of the key is known."""
    server: Entry = {"type": "stdio", "command": "uvx", "args": ["mcp-server-time"], "env": {}}
    for root in ("mcpServers", "servers"):
        document = {"theme": "dark", root: {"time": server}}
        (config,) = parse_servers_file(json.dumps(document), file=FILE).servers

        assert (config.id, config.command, config.args) == ("time", "uvx", ("mcp-server-time",))
        assert config.options.permission is Permission.APPROVAL_REQUIRED
        assert not config.options.trusted


def test_a_disabled_server_is_left_out_whatever_it_says() -> None:
    """It was switched off, perhaps because it is wrong."""
    assert parsed(notes={"disabled": True, "comand": "x"}) == ServersFile()


def test_a_server_reached_by_url_is_refused_alone() -> None:
    """The others of the file are good."""
    file = parsed(web={"url": "https://example.test/mcp", "headers": {}}, notes={"command": "x"})

    assert [server.id for server in file.servers] == ["notes"]
    assert [server.id for server in file.refused] == ["web"]
    assert "HTTP" in file.refused[0].reason


def test_text_that_is_no_json_is_told_with_its_line() -> None:
    """The line of the fault, and what people often leave in such files."""
    error = refused('{\n  "mcpServers": {\n    "a": {"command": "x",}\n  }\n}')

    assert error.line == 3
    assert "trailing commas" in str(error)


@pytest.mark.parametrize("text", ["[]", "{}", '{"mcpServers": {}, "servers": {}}', '"x"'])
def test_a_file_without_servers_says_what_it_must_have(text: str) -> None:
    """One object with one known key."""
    assert refused(text).line == 1


def test_a_key_that_stands_twice_is_an_error() -> None:
    """JSON readers disagree on which one counts."""
    error = refused('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}')

    assert error.key == "a"


def test_an_unknown_key_is_named_with_its_line_and_the_known_ones() -> None:
    """And with the one that was probably meant."""
    error = refused('{"mcpServers": {\n "a": {\n  "command": "x",\n  "arg": ["y"]\n }}}')

    assert (error.line, error.key) == (4, "mcpServers.a.arg")
    assert "args, command, cwd, disabled, env" in str(error)
    assert 'Did you mean "args"?' in str(error)


def test_an_unknown_key_of_ours_is_named_too() -> None:
    """The keys under `toolrail` have their own list."""
    text = '{"mcpServers": {"a": {"command": "x",\n "toolrail": {\n"trust": true}}}}'
    error = refused(text)

    assert (error.line, error.key) == (3, "mcpServers.a.toolrail.trust")
    assert 'Did you mean "trusted"?' in str(error)


@pytest.mark.parametrize("key", ["envFile", "autoApprove", "alwaysAllow", "timeout"])
def test_a_key_of_other_hosts_is_refused_with_what_to_do_instead(key: str) -> None:
    """Ignoring an approval list would be worse than an error."""
    error = refused(json.dumps({"mcpServers": {"a": {"command": "x", key: []}}}))

    assert "known key" not in str(error)
    assert error.key == f"mcpServers.a.{key}"


@pytest.mark.parametrize("name", ["Brave Search", "a_b", "-a", "", "a" * 33, "a.b"])
def test_a_server_name_that_would_break_tool_names_is_refused(name: str) -> None:
    """Letters, digits and hyphens, so that a tool name has one reading."""
    assert "1 to 32" in str(refused(json.dumps({"mcpServers": {name: {"command": "x"}}})))


def test_a_better_server_name_is_proposed() -> None:
    """What the person meant, as far as the grammar allows."""
    error = refused(json.dumps({"mcpServers": {"Brave_Search": {"command": "x"}}}))

    assert '"brave-search"' in str(error)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"command": ""},
        {"command": 7},
        {"command": "x", "args": "y"},
        {"command": "x", "args": ["a\0b"]},
        {"command": "x", "env": {"A": 1}},
        {"command": "x", "env": {"A=B": "1"}},
        {"command": "x", "toolrail": {"trusted": "yes"}},
        {"command": "x", "toolrail": {"connect_timeout_s": 0}},
        {"command": "x", "toolrail": {"permission": "maybe"}},
        {"command": "x", "toolrail": {"surface": {"tag": ["a"]}}},
        {"command": "x", "toolrail": {"tool_surface": {"t": {"tags": "a"}}}},
        {"command": "x", "toolrail": {"env_passthrough": ["TOOLRAIL_SECRET"]}},
    ],
)
def test_a_wrong_value_is_refused_at_its_place(entry: Entry) -> None:
    """Nothing is converted or guessed, and no secret of ours is handed on."""
    error = refused(json.dumps({"mcpServers": {"a": entry}}))

    assert (error.key or "").startswith("mcpServers.a")
    assert error.line == 1


@pytest.mark.parametrize("field", ["command", "args", "env", "cwd"])
def test_a_variable_must_be_passed_through_to_be_referred_to(field: str) -> None:
    """Otherwise a copied file could send any variable of the worker to any server."""
    value: dict[str, JsonValue] = {
        "command": "${TOKEN}",
        "args": ["${env:TOKEN}"],
        "env": {"A": "x${TOKEN}"},
        "cwd": "/${TOKEN}",
    }
    entry: Entry = {"command": "x", field: value[field]}
    error = refused(json.dumps({"mcpServers": {"a": entry}}))
    allowed = only({**entry, "toolrail": {"env_passthrough": ["TOKEN"]}})

    assert "env_passthrough" in str(error)
    assert allowed.id == "notes"


@pytest.mark.parametrize("reference", ["${input:key}", "${TOKEN:-none}", "${}"])
def test_a_reference_that_other_hosts_resolve_is_refused(reference: str) -> None:
    """Passed on as text it would become a wrong key somewhere."""
    error = refused(json.dumps({"mcpServers": {"a": {"command": "x", "args": [reference]}}}))

    assert "not understood" in str(error)
    assert error.key == "mcpServers.a.args.0"


def test_references_are_resolved_when_the_server_starts(tmp_path: Path) -> None:
    """Own variables outrank inherited ones; the working folder is checked."""
    config = only(
        {
            "command": "${HOME}/bin/x",
            "args": ["--key=${env:TOKEN}"],
            "env": {"PATH": "/only", "AUTH": "Bearer ${TOKEN}"},
            "cwd": str(tmp_path),
            "toolrail": {"env_passthrough": ["TOKEN", "HOME"]},
        }
    )
    command = command_for(config, {"HOME": "/home/x", "TOKEN": "t", "PATH": "/usr/bin"})

    assert command.command == "/home/x/bin/x"
    assert command.args == ("--key=t",)
    assert command.environment["PATH"] == "/only"
    assert command.environment["AUTH"] == "Bearer t"
    assert command.cwd == tmp_path


def test_variables_and_headers_of_the_file_are_secrets(tmp_path: Path) -> None:
    """All but words, references and places that exist; of disabled and refused servers too."""
    variables: Entry = {
        "NOTES_FOLDER": str(tmp_path),
        "LOG_LEVEL": "debug",
        "FROM_US": "${FROM_US}",
        "PLAIN": "in plain words",
        "PASSWORD": "short",
    }
    file = parsed(
        notes={"command": "x", "env": variables, "toolrail": {"env_passthrough": ["FROM_US"]}},
        off={"disabled": True, "env": {"KEY": "of a disabled one"}},
        far={
            "url": "https://h",
            "headers": {"X-Key": "of a header", "Authorization": "Bearer abc"},
        },
    )

    known = {"in plain words", "short", "of a disabled one", "of a header", "abc"}
    assert set(file.secrets) == known
    assert "plain" not in repr(file)


def test_what_a_server_is_given_is_known_as_secret_before_it_starts() -> None:
    """Its words are cleaned of it from the first on."""
    config = only(
        {
            "command": "x",
            "env": {"OWN": "pre-${GIVEN}"},
            "toolrail": {"env_passthrough": ["GIVEN", "HOME"]},
        }
    )
    command_for(config, {"GIVEN": "given by the worker", "HOME": "/"})

    assert clean("<given by the worker>") == clean("<pre-given by the worker>") == "<«redacted»>"


def test_a_variable_that_is_not_set_stops_that_server() -> None:
    """Its name is told, no value ever is."""
    entry: Entry = {"command": "x", "env": {"A": "${T}"}, "toolrail": {"env_passthrough": ["T"]}}
    with pytest.raises(CannotStart, match=r"\$\{T\}"):
        command_for(only(entry), {})


def test_a_working_folder_that_is_missing_stops_that_server(tmp_path: Path) -> None:
    """Otherwise it would look as if the command were missing."""
    with pytest.raises(CannotStart, match="cwd"):
        command_for(only({"command": "x", "cwd": str(tmp_path / "none")}), {})


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (FileNotFoundError(2, "no"), "Install it"),
        (PermissionError(13, "no"), "executable"),
        (OSError(8, "Exec format error"), "Exec format error"),
    ],
)
def test_a_command_that_cannot_be_started_is_explained(error: OSError, remedy: str) -> None:
    """Each common cause has its own remedy."""
    assert remedy in explain_start_failure(error, "x")


def test_a_file_that_cannot_be_read_is_a_configuration_error(tmp_path: Path) -> None:
    """Named by the setting that points to it."""
    with pytest.raises(ConfigError, match="TOOLRAIL_MCP_SERVERS_FILE"):
        load_servers_file(tmp_path / "none.json")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {}}', encoding="utf-8-sig")

    assert load_servers_file(file) == ServersFile()


KEYS = st.text('ab"\\{}[]:,', max_size=3)
TREES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | KEYS | st.integers(0, 99),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@given(before=st.dictionaries(KEYS, TREES, max_size=3), value=TREES)
def test_the_line_of_a_key_is_found_whatever_stands_before_it(
    before: dict[str, JsonValue], value: JsonValue
) -> None:
    """Every key of the pretty-printed document is on the line the reader names."""
    document = {**before, "wanted": {"inner": value}}
    text = json.dumps(document, indent=1)
    line = line_of(text, ["wanted", "inner"])

    assert text.splitlines()[line - 1].lstrip().startswith('"inner":')
