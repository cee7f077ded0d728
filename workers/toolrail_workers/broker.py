"""Decide where a worker's doorbells come from.

Is: from settings to the URL, transport and transport options that kombu understands. Pure.
Is not: a connection. Above: `app.py`. Below: nothing.
"""

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from toolrail.settings import Settings

BATCH_ALIAS = "toolrail"
"""What `transport.py` is called in kombu's table of transports."""

REDIS_SCHEMES = frozenset({"redis", "rediss"})

POP_PATIENCE_S = 1
"""How long a pop waits at the server. Short, because an empty reply is a sign of life."""

HEALTH_S = 10
"""A pop that is overdue by this long is a dead connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """What kombu is told."""

    url: str
    transport: str | None
    """None: kombu's own for the URL's scheme."""
    options: dict[str, object]
    batch: bool
    """Whether it is our transport, which pops many at a time."""


def find_broker(settings: Settings) -> Broker:
    """Return the broker of these settings.

    A foreign broker gets no key prefix: whoever publishes there names the queues plainly, and
    clusters keep apart by virtual host or database.
    """
    foreign = settings.broker_url not in (None, settings.redis_url)
    url = settings.broker_url or settings.redis_url
    scheme = urlsplit(url).scheme
    is_redis = scheme in REDIS_SCHEMES or scheme == "unix"
    batch = is_redis and settings.transport == "batch"
    if not is_redis:
        return Broker(url=url, transport=None, options={}, batch=False)
    options = redis_options(settings.redis_timeout_s)
    if not foreign:
        options["global_keyprefix"] = settings.key_prefix
    if scheme == "unix":
        # The part before the plus names the transport; kombu keeps the rest of such a URL whole.
        name = BATCH_ALIAS if batch else "redis"
        return Broker(
            url=f"{name}+{_socket_url(url)}", transport=None, options=options, batch=batch
        )
    return Broker(url=url, transport=BATCH_ALIAS if batch else None, options=options, batch=batch)


def redis_options(timeout_s: float) -> dict[str, object]:
    """Return kombu's transport options for a Redis that only carries doorbells."""
    return {
        # The lease does that job; kombu's version of it loses and doubles messages.
        "ack_emulation": False,
        "priority_steps": [0],
        "polling_interval": POP_PATIENCE_S,
        # Longer than a pop waits at the server, or every empty queue would look dead.
        "socket_timeout": max(timeout_s, 2 * POP_PATIENCE_S),
        "socket_connect_timeout": timeout_s,
        "socket_keepalive": True,
        "health_check_interval": HEALTH_S,
        "retry_on_timeout": False,
        "client_name": "toolrail-worker",
        # Pub/sub channels are not used, and this keeps even their names in our database.
        "fanout_prefix": True,
        "fanout_patterns": True,
    }


def _socket_url(url: str) -> str:
    """Return redis-py's `unix://` URL as kombu's `socket://`."""
    parts = urlsplit(url)
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"socket://{parts.netloc}{parts.path}?virtual_host={database}"
