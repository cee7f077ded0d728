"""Count the sessions of extensions as one worker sees them.

Is: who is connected, and why sessions ended. Is not: liveness itself (`directory.py`), nor hearing
of it (`listener.py`). Above: `executor.py`, `listener.py`. Below: `toolrail.metrics`.

Every worker sees every session: of several workers each one counts an end. The label `extension`
holds names that registered, the first `NAMES_MAX` of them; the rest is one.
"""

from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from toolrail.extension.bridge import Presence
from toolrail.metrics import catalogue
from toolrail.metrics.labels import DISCONNECT_REASON, OTHER
from toolrail.metrics.registry import counter, gauge

NAMES_MAX = 50
"""Extensions with a label of their own. Whoever may register may choose any name."""
_GOODBYES = {"leaving": "left", "closed": "left", "refused": "protocol"}
"""What a hint says about the end of a session, by its word."""


class SessionMetrics:
    """The sessions of all extensions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._connections = gauge(catalogue.EXTENSION_CONNECTIONS, registry)
        self._disconnects = counter(catalogue.EXTENSION_DISCONNECTS, registry)
        self._labels: set[str] = set()
        self._alive: dict[str, str] = {}
        self._goodbyes: dict[str, str] = {}

    def heard(self, extension: str, change: str) -> None:
        """Take in a hint, which comes before the look that it asks for."""
        if change in _GOODBYES:
            # What the backend ended stays so, whatever the extension says on its way out.
            if self._goodbyes.get(extension) != "protocol":
                self._goodbyes[extension] = _GOODBYES[change]
        elif change == "open":
            # The session before may have come and gone between two looks.
            if extension in self._goodbyes and extension in self._alive:
                self._end(extension, next_session="")
            self._goodbyes.pop(extension, None)

    def saw(self, presences: Iterable[Presence]) -> None:
        """Take in which sessions are alive now."""
        now = {presence.extension: presence.session for presence in presences}
        for extension, session in list(self._alive.items()):
            if now.get(extension) != session:
                self._end(extension, next_session=now.get(extension, ""))
        self._alive = {extension: session for extension, session in now.items() if session}
        connected = Counter(self._label(extension) for extension in self._alive)
        for extension in now:
            self._label(extension)
        for label in self._labels:
            self._connections.labels(label).set(connected[label])

    def _end(self, extension: str, *, next_session: str) -> None:
        reason = self._goodbyes.pop(extension, "replaced" if next_session else "lost")
        del self._alive[extension]
        self._disconnects.labels(self._label(extension), reason).inc()

    def _label(self, extension: str) -> str:
        label = extension
        if label not in self._labels and len(self._labels) >= NAMES_MAX:
            label = OTHER
        if label not in self._labels:
            self._labels.add(label)
            for reason in DISCONNECT_REASON.values:
                self._disconnects.labels(label, reason)
        return label
