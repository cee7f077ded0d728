"""Secrets that are planted in a cluster, one for each place and kind, and the search for them.

Is: the values, made of nothing but their place's name, so that every process has the same; the
search over bytes. Is not: where one looks (`test_planted_secrets.py`). Above: that test, and the
tools, server and extension it plants secrets in. Below: the standard library.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Planted:
    """One secret: the text that is planted, and the part of it that may be found nowhere."""

    text: str
    core: str


def _core(place: str) -> str:
    return hashlib.sha256(place.encode()).hexdigest()[:20]


def _plain(place: str) -> Planted:
    """Return a secret that no pattern knows."""
    core = f"w{_core(place)}"
    return Planted(core, core)


def _shaped(place: str, shape: str) -> Planted:
    """Return a secret with the shape of a credential."""
    core = _core(place)
    return Planted(shape.format(core), core)


def _aws(place: str) -> Planted:
    core = _core(place)[:16].upper()
    return Planted(f"deployed with AKIA{core}.", core)


def _jwt(place: str) -> Planted:
    core = _core(place)
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "ann"}).encode()).decode().rstrip("=")
    return Planted(f"eyJhbGciOiJIUzI1NiJ9.{claims}.{core}", core)


PEM = "-----BEGIN RSA PRIVATE KEY-----\n{0}{0}\n{0}\n-----END RSA PRIVATE KEY-----"

# Known to a process.
SETTINGS_SECRET = _plain("the HMAC key of doorbells")
PASSED_VARIABLE = _plain("a variable that is passed on to an MCP server")
OWN_VARIABLE = _plain("a variable that the servers file sets")
HEADER = _plain("a header of an MCP server that is reached by URL")
# In arguments.
MARKED = _plain("an argument that the schema marks")
NESTED = _plain("an argument inside of another, marked as a password")
NAMED = _plain("an argument whose name says it")
REFUSED = _plain("a marked argument of a call that is refused as invalid")
ASKED = _plain("a marked argument of a call that waits for a person")
MCP_ARGUMENT = _plain("an argument of an MCP tool that is called password")
EXTENSION_ARGUMENT = _plain("an argument of an extension that is called token")
IN_TEXT = _shaped("a text argument", "curl -H 'Authorization: Bearer {0}' https://host.example")
TOOL_NAME = _shaped("the name of a tool that nobody has", "ghp_{0}{0}")
TYPED = _shaped("an id that an operator types", "run_npm_{0}{0}")
# In what tools say.
DESCRIBED = _shaped("the description of a tool", "Pay with hf_{0}, for example.")
IMPORTED = _shaped("the words of a tool module that cannot be imported", "passphrase: {0}")
RAISED = _plain("the words of an exception of a process tool")
RAISED_ON_LOOP = _plain("the words of an exception of a loop tool")
RAISED_IN_EXTENSION = _plain("the words of an exception of an extension")
TOOL_ERROR = _jwt("the message of a ToolError")
SYSTEM_FAILURE = _shaped("the message of a SystemFailure", "password={0}")
PRINTED = _shaped("what a tool prints", PEM)
LOGGED = _shaped("what a library logs", "GET https://user:{0}@host.example/ 401")
LOGGED_TRACE = _shaped("an exception that a library logs", "xoxb-12345-67890-{0}")
LOGGED_EXTRA = _plain("a field called api_key that a library logs")
LOGGED_IN_EXTENSION = _shaped("what an extension logs", "sk-proj-{0}T3BlbkFJ{0}")
TOLD = _shaped("the payload of an event of a tool", "see /tmp/x?sig={0}&v=1")
REFERRED = _shaped("the ref of a page that a tool gives out", "glpat-{0}")
SERVER_SAID = _shaped("what an MCP server prints", '{{"client_secret": "{0}"}}')
SERVER_REFUSED = _shaped("the error of an MCP server that never starts", "api_key={0}")
SERVER_ENDED = _aws("the last words of an MCP server")
# In what people say.
RUN_NAME = _shaped("the name of a run", "nightly?key={0}")
COMMENT = _shaped("a person's comment", "use token: {0} instead")

ALL: Mapping[str, Planted] = {
    name: value for name, value in vars().items() if isinstance(value, Planted)
}


def found_in(place: str, data: bytes, planted: Mapping[str, Planted], *, but: str) -> Iterator[str]:
    """Yield a sentence for each planted secret in a text, but for one that may be there."""
    for name, secret in planted.items():
        at = data.find(secret.core.encode())
        if at >= 0 and name != but:
            yield f"{name} in {place}: {data[max(0, at - 80) : at + 80]!r}"
