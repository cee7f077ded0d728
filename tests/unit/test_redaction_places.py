"""Where a process learns what is secret, and the places that nothing else would notice.

Is: each constructor that tells its settings' secrets; events and reasons by themselves. Is not: a
whole cluster (`test_planted_secrets.py`), which has two lines of defence at most of these places.
Above: nothing. Below: every caller of `toolrail.redaction.know`.
"""

import uuid
from collections.abc import Callable

import pytest
from mcp.shared.exceptions import MCPError
from pydantic import JsonValue, SecretStr

from tests.functions import make_spec
from tests.mcp_servers import claimed
from tests.waiting import await_until
from toolrail import Toolrail
from toolrail.extension import Extension
from toolrail.ledger.arguments import approve_args
from toolrail.ledger.records import Approval
from toolrail.redaction import clean
from toolrail.settings import Settings
from toolrail_schemas import EventType, JsonObject, Source, check_payload
from toolrail_workers.answers import event_lines
from toolrail_workers.app import create_app
from toolrail_workers.mcp.config import ServerConfig, ServersFile
from toolrail_workers.mcp.executor import McpExecutor
from toolrail_workers.mcp.server import McpServer
from toolrail_workers.mcp.transport import ServerTransport

PLACES: dict[str, Callable[[Settings], object]] = {
    "a client": Toolrail,
    "an extension": lambda settings: Extension("demo", version="1", settings=settings),
    "a worker's app": create_app,
    "a servers file": lambda settings: McpExecutor(ServersFile(secrets=settings.secrets())),
}


@pytest.mark.parametrize("place", PLACES)
def test_whoever_gets_the_settings_knows_their_secrets(place: str) -> None:
    """The key of doorbells and both passwords, also as a URL spells them."""
    key, redis, broker = (uuid.uuid4().hex for _ in range(3))
    settings = Settings(
        secret=SecretStr(key),
        redis_url=f"redis://:p%40{redis}@127.0.0.1:1/0",
        broker_url=f"amqp://u:{broker}@127.0.0.1:1//",
    )
    PLACES[place](settings)

    for text in (key, f"p%40{redis}", f"p@{redis}", broker):
        assert clean(f"it is {text}") == "it is «redacted»"


async def test_what_a_server_says_when_it_refuses_us_is_clean() -> None:
    """Its reason is announced to every client, and stands in answers to models."""

    def refuse(_config: ServerConfig) -> ServerTransport:
        raise MCPError(-1, "wrong api_key=needle")

    server = McpServer(
        ServerConfig(id="demo", command="x"), make_transport=refuse, on_change=lambda: None
    )
    server.start()
    await await_until(lambda: "failed" in (server.reason or ""), "the reason")
    reason = server.reason
    await server.stop()

    assert reason == "the handshake failed: wrong api_key=«redacted»"


def test_an_event_that_marks_make_too_large_is_refused_in_its_place() -> None:
    """A mark is longer than what it stands for, and a journal's payload has 8 KiB."""
    call = claimed(make_spec("mcp.demo.any", source=Source.MCP), {})
    words: list[JsonValue] = ["pwd=x " * 160] * 8
    payload: JsonObject = {"why": words}
    check_payload(EventType.CONTEXT_COMPONENT_SKIPPED, payload)
    [line] = event_lines(call, [(EventType.CONTEXT_COMPONENT_SKIPPED, payload)])

    assert list(line.payload) == ["payload_refused"]


def test_an_approval_is_journaled_without_secrets() -> None:
    """Whatever a person calls themselves."""
    approval = Approval(
        by="ann",
        payload={"decided_by": "token=needle"},
        cap_run=None,
        envelope="",
        args_sha256="",
        spec_hash="",
    )

    assert '{"decided_by":"token=«redacted»"}' in approve_args(approval)
