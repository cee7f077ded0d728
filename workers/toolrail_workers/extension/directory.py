"""Know which extensions there are, what they offer, and whether they are alive.

Is: registrations, checked, as owners and specs. Is not: when to look (`listener.py`).
Above: `executor.py`, `listener.py`. Below: `toolrail.extension.bridge`, the schemas.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from toolrail.extension.bridge import Bridge, Presence, Registration, View
from toolrail_schemas import ExtensionHello, RegisterTools, ToolSpec
from toolrail_workers.executor import OwnerSpecs

log = logging.getLogger(__name__)

PROTOCOL = 1
NOT_CONNECTED = "The extension is not connected."
LEAVING = "The extension is shutting down."


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """One tool of an extension, as this worker asks for it."""

    extension: str
    own_name: str
    spec: ToolSpec
    is_repeatable: bool
    """By its own word, read-only or idempotent: to say so when its extension went away is enough.
    It is never run again for that word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    presence: Presence
    tools: tuple[OfferedTool, ...]
    problem: str | None

    @property
    def session(self) -> str | None:
        """The session that takes calls, if there is one."""
        return None if self.presence.leaving else self.presence.session or None

    def to_owner(self) -> OwnerSpecs:
        """Return the owner as it is announced; its tools stay listed whatever its state."""
        reason = self.problem
        if reason is None and self.session is None:
            reason = LEAVING if self.presence.session else NOT_CONNECTED
        return OwnerSpecs(
            owner=self.presence.extension,
            specs=tuple(tool.spec for tool in self.tools),
            available=reason is None,
            reason=reason,
        )


class Directory:
    """All listed extensions, as of the last look."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._tools: dict[str, OfferedTool] = {}
        self._owners: tuple[OwnerSpecs, ...] = ()

    async def update(self, view: View, bridge: Bridge) -> bool:
        """The directory shows the view; returns whether the owners have changed.

        Raises:
            RedisUnavailable: A changed registration could not be read; the next look tries again.
        """
        known: dict[str, _Known] = {}
        for presence in view.presences:
            name = presence.extension
            before = self._known.get(name)
            if before is None or before.presence.digest != presence.digest:
                known[name] = _read(presence, await bridge.registration(name))
            else:
                known[name] = _Known(presence=presence, tools=before.tools, problem=before.problem)
        self._known = known
        self._tools = {tool.spec.name: tool for item in known.values() for tool in item.tools}
        owners = tuple(known[name].to_owner() for name in sorted(known))
        has_changed = owners != self._owners
        self._owners = owners
        return has_changed

    def owners(self) -> Sequence[OwnerSpecs]:
        """Return every listed extension with its tools."""
        return self._owners

    def find(self, tool: str) -> OfferedTool | None:
        """Return a tool by its canonical name."""
        return self._tools.get(tool)

    def session(self, extension: str) -> str | None:
        """Return the session that takes an extension's calls; None when there is none."""
        known = self._known.get(extension)
        return None if known is None else known.session

    def is_alive(self, extension: str, session: str) -> bool:
        """Whether a session may still answer."""
        known = self._known.get(extension)
        return known is not None and known.presence.session == session


def _read(presence: Presence, registration: Registration | None) -> _Known:
    """Check what an extension registered: its client did, but is not believed."""
    tools: tuple[OfferedTool, ...] = ()
    problem: str | None = None
    if registration is None:
        problem = NOT_CONNECTED
    elif registration.protocol != str(PROTOCOL):
        problem = (
            "The extension speaks another protocol version than this worker. Update the older."
        )
    else:
        try:
            tools = _tools(presence.extension, registration)
        except ValidationError as error:
            log.warning(
                "extension.bad_registration",
                extra={"extension": presence.extension, "errors": error.error_count()},
            )
            problem = "The extension's registration breaks the rules; none of its tools is taken."
    return _Known(presence=presence, tools=tools, problem=problem)


def _tools(extension: str, registration: Registration) -> tuple[OfferedTool, ...]:
    version = registration.version
    ExtensionHello(extension_id=extension, version=version, nonce="x" * 16)
    message = RegisterTools.model_validate_json(registration.tools)
    return tuple(
        OfferedTool(
            extension=extension,
            own_name=tool.name,
            spec=tool.to_spec(extension=extension, version=version),
            is_repeatable=(tool.annotations.read_only is True and not tool.annotations.destructive)
            or tool.annotations.idempotent is True,
        )
        for tool in message.tools
    )
