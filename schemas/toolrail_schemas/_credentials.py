"""Find what looks like a credential in any text, and write «redacted» in its place.

Is: names that announce a secret, and patterns of credentials; pure, the same in every process.
Is not: what a process knows to be secret, or what a tool's schema marks (`toolrail.redaction`).
Above: `_summary.py`, `toolrail.redaction`. Below: `_escapes.py`.

Every pattern is linear in the length of the text: a start is found by a literal, what follows is
bounded or cannot hold a second start, and nothing that was read is read again.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from toolrail_schemas._escapes import has_escapes, replace_shown, without_escapes

REDACTED = "«redacted»"

_SECRET_NAME = re.compile(
    r"pass|secret|token|api[_-]?key|authorization|cookie|credential|(?:private|access)[_-]?key",
    re.IGNORECASE | re.ASCII,
)

# Where a token may begin: not in the middle of a word.
_EDGE = r"(?<![A-Za-z0-9])"
_BODY = "[A-Za-z0-9_-]"

_TOKEN = re.compile(
    rf"{_EDGE}(?:"
    rf"(?:sk|pk|rk)[-_]{_BODY}{{16,}}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}"
    rf"|glpat-{_BODY}{{20,}}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    rf"|AIza{_BODY}{{30,}}"
    r"|hf_[A-Za-z0-9]{20,}"
    r"|npm_[A-Za-z0-9]{30,}"
    rf"|pypi-{_BODY}{{50,}}"
    rf"|ya29\.{_BODY}{{20,}}"
    r")",
    re.ASCII,
)
# No `-` or `_` before it: a run of `-eyJ` would have a start at each.
_JWT = re.compile(rf"(?<!{_BODY})eyJ{_BODY}{{8,}}\.eyJ{_BODY}{{8,}}(?:\.{_BODY}*)?", re.ASCII)
_SCHEME = re.compile(
    r"(?<![A-Za-z0-9])((?:bearer|basic)\s{1,8})(?!(?:auth|cred|error|realm|scheme|token)[a-z]*\b)"
    r"[a-z0-9+/=_.~-]{8,}",
    re.IGNORECASE | re.ASCII,
)
_URL = re.compile(r"(://[^/\s:@\"'<>\\]*:)[^/\s@\"'<>\\]+(?=@)", re.ASCII)
_PARAMETER = re.compile(
    r"([?&](?:sig|signature|key|auth|code|x-amz-[a-z-]{1,32})=)[^&\s\"'<>\\#]+",
    re.IGNORECASE | re.ASCII,
)
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY[A-Z ]{0,16}-----"
    r"(?s:.*?)(?:-----END [A-Z0-9 ]{0,64}-----|\Z)",
    re.ASCII,
)

_NAMED = (
    r"(?:passw(?:or)?d|passphrase|passcode|pwd|secret|credential|token(?!s)"
    r"|(?:api|access|private)[_-]?key)[a-z0-9_-]{0,40}+"
)
_SEPARATOR = r"\\{0,4}+[\"']?+\s{0,4}+(?:=>|[:=](?!>))\s{0,4}+(?:b(?=[\"']))?"
# A quoted value ends at its quote, one inside of a quoted text at its escaped quote.
_QUOTED = "|".join(
    rf"{quote}(?:[^{quote}\\\n]|\\.)+|\\{{1,4}}+{quote}(?:[^{quote}\\\n]|\\[^{quote}\\\n])+"
    for quote in ('"', "'")
)
_NOTHING = r"(?!(?:none|null|true|false|undefined)\b|«redacted»|\*)"
_BARE = r"[^\s\"'\\,;&)\]}]"
_HEADER = re.compile(
    # `Authorization: Bearer x`, `("cookie", "x")`: to the end of the line, or of the quotes.
    r"((?:authorization|cookie)"
    rf"(?:{_SEPARATOR}|\\{{0,4}}+[\"']\s?,\s?b?(?=\\{{0,4}}[\"'])))"
    rf"(?:{_QUOTED}|[^\s\"'\\][^\n\"'\\]*)",
    re.IGNORECASE | re.ASCII,
)
_ASSIGNED = re.compile(
    # `"password": "x"`; `api_key=x`; `token: x` in prose, if x is no word of a sentence
    rf"({_NAMED}{_SEPARATOR})(?:{_QUOTED}|(?<=[=:>]){_NOTHING}{_BARE}+"
    rf"|{_NOTHING}(?-i:(?=[A-Za-z]{{0,64}}[0-9!@#$%^&*+=~]|[A-Z]?[a-z]{{1,64}}[A-Z])){_BARE}{{6,}})",
    re.IGNORECASE | re.ASCII,
)


def _keep_name(match: re.Match[str]) -> str:
    name = next((group for group in match.groups() if group is not None), "")
    rest = match.group()[len(name) :]
    quote = rest[: len(rest) - len(rest.lstrip("\\\"'"))] if rest[:1] in "\\\"'" else ""
    return f"{name}{quote}{REDACTED}"


def _whole(_match: re.Match[str]) -> str:
    return REDACTED


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of credential, looked for only in texts that hold one of its hints."""

    hints: tuple[str, ...]
    """In lower case."""
    pattern: re.Pattern[str]
    replace: Callable[[re.Match[str]], str]


_TOKEN_HINTS = (
    *("k-", "k_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "_pat_", "glpat-", "xox", "akia", "asia"),
    *("aiza", "hf_", "npm_", "pypi-", "ya29."),
)
_KINDS = (
    _Kind(("private key",), _PEM, _whole),
    _Kind(("://",), _URL, _keep_name),
    _Kind(("sig", "key=", "auth=", "code=", "x-amz-"), _PARAMETER, _keep_name),
    _Kind(("bearer", "basic"), _SCHEME, _keep_name),
    _Kind(("authorization", "cookie"), _HEADER, _keep_name),
    _Kind(("pass", "pwd", "secret", "token", "key", "credential"), _ASSIGNED, _keep_name),
    _Kind(("eyj",), _JWT, _whole),
    _Kind(_TOKEN_HINTS, _TOKEN, _whole),
)


def is_secret_name(name: str) -> bool:
    """Return whether a key of this name announces a secret."""
    return _SECRET_NAME.search(name) is not None


def redact_credentials(text: str) -> str:
    """Return the text with «redacted» where something looks like a credential.

    What is not secret stays: the name before a password, the scheme of a header, the host of a
    URL. Doing it twice is the same as once. An escape sequence before or in a credential hides it
    from nobody, so not from us.
    """
    if has_escapes(text):
        # First, or what stands before an escape would go alone and leave its end behind.
        for kind in _looks_like(without_escapes(text)):
            text = replace_shown(kind.pattern, kind.replace, text)
    for kind in _looks_like(text):
        text = kind.pattern.sub(kind.replace, text)
    return text


def _looks_like(text: str) -> list[_Kind]:
    lower = text.lower()
    return [kind for kind in _KINDS if any(hint in lower for hint in kind.hints)]
