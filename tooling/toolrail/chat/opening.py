"""Open the chat store that the settings name.

Is: the one choice between the stores. Is not: a store.
Above: `toolrail chat`, executors, agent services. Below: `sqlite.py`, `postgres.py`, settings.
"""

import importlib
from collections.abc import Callable
from typing import cast

from toolrail.chat.sqlite import SqliteChats
from toolrail.chat.store import ChatStore
from toolrail.errors import ConfigError
from toolrail.settings import Settings, variable_of


def open_chat_store(settings: Settings) -> ChatStore:
    """Return the store; nothing is connected or made before it is first used.

    Raises:
        ConfigError: PostgreSQL is wanted and its driver is not installed.
    """
    url = settings.chat_url
    if url is None:
        return SqliteChats(settings.chat_dir)
    try:
        module = importlib.import_module("toolrail.chat.postgres")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"names a PostgreSQL database, and the package {error.name} is not installed.",
            fix="Run: pip install 'toolrail[postgres]'",
            key=variable_of("chat_url"),
        ) from None
    return cast("Callable[[str], ChatStore]", module.PostgresChats)(url)
