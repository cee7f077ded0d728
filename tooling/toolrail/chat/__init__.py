"""Keep the chats that runs read: store, search, import.

Is: a port (`store.py`) and its two stores, `sqlite.py` (embedded, one file for each chat) and
`postgres.py`; what a query means (`query.py`), where it is found (`snippet.py`), how files are
read (`jsonl.py`). Is not: what a model may see of a chat, which the chat tools decide.
Above: agent services, `toolrail chat`, the chat tools of `toolrail_workers`. Below:
`toolrail.search.terms`.

    store = open_chat_store(settings)
    store.append(ChatKey("default", "chat-7"), [Message(role=Role.USER, content="Hello")])
"""

from toolrail.chat.opening import open_chat_store
from toolrail.chat.store import ChatKey, ChatStore, Message, Role

__all__ = ["ChatKey", "ChatStore", "Message", "Role", "open_chat_store"]
