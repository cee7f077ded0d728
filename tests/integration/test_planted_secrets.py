"""A secret planted in arguments, error text, headers or a variable is found nowhere but at home.

Is: one real cluster that is told secrets in every way (`tests/planted*.py`), then a search through
every byte of Redis, logs, metrics and what operators see. Is not: what a redactor does with one
text (`test_redaction.py`). Above: nothing. Below: every place that calls `toolrail.redaction`.
"""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import transient_settings

from tests import planted
from tests.planted import ALL, Planted, found_in
from tests.planted_scene import Scene, Texts, collect
from tests.promises import promise
from toolrail_schemas import REDACTED

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

DETECTORS = (
    "ArtifactoryDetector",
    "AWSKeyDetector",
    "BasicAuthDetector",
    "GitHubTokenDetector",
    "GitLabTokenDetector",
    "JwtTokenDetector",
    "KeywordDetector",
    "NpmDetector",
    "OpenAIDetector",
    "PrivateKeyDetector",
    "SendGridDetector",
    "SlackDetector",
    "StripeDetector",
)
"""Of detect-secrets; not those that take every digest for a secret."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give what is left when everything has happened."""
    yield await collect(tmp_path_factory.mktemp("planted"))


CODES = {
    "0 planted.log_in": "tool.execution_failed",
    "1 planted.log_in": "tool.invalid_arguments",
    "2 planted.chat": "demo.refused",
    "3 planted.crash": "tool.execution_failed",
    "4 planted.tell": None,
    f"5 {planted.TOOL_NAME.text}": "tool.not_found",
    "6 mcp.leaky.whoami": "tool.mcp_error",
    "7 mcp.leaky.leave": "tool.outcome_unknown",
    "8 ext.leaky.spill": "tool.execution_failed",
    "9 planted.fail_run": "workspace.io_failed",
    "pay 0": "approval.denied",
    "pay 1": None,
}
WENT_HOME = {
    *("MARKED", "NESTED", "NAMED", "REFUSED", "ASKED", "MCP_ARGUMENT", "EXTENSION_ARGUMENT"),
    *("IN_TEXT", "TOOL_NAME", "TOOL_ERROR", "SYSTEM_FAILURE", "REFERRED", "COMMENT", "RUN_NAME"),
    *("OWN_VARIABLE", "PASSED_VARIABLE", "SERVER_SAID"),
}
"""What is in arguments or results, as it should."""
LOGGED = {
    "builtin.1": (
        "child.output: logging in with «redacted», «redacted» and «redacted»",
        "the key is «redacted»",
        "the password is «redacted»",
        "GET https://user:«redacted»@host.example/ 401 «redacted» curl -H",
        """said="{'pin': ['«redacted»']}\"""",
        "OSError: «redacted» «redacted»",
        "api_key=«redacted»",
        "tool.raised",
    ),
    "mcp.1": (
        r"{\"client_secret\": \"«redacted»\"}",
        "leave «redacted» deployed with «redacted». «redacted» «redacted»",
    ),
    "leaky": ("«redacted» «redacted»", "extension.tool_crashed", "raised=ValueError"),
}
"""What stands in the log of a process instead: a proof that it was said there."""


async def test_every_secret_was_planted_where_the_test_says(scene: Scene) -> None:
    """Else nothing found would mean nothing: calls and answers hold them, logs show the gaps."""
    codes = {name: result.error_code for name, result in scene.results.items()}
    home = b"".join(data for _, data in scene.home)
    logs = {place: data.decode() for place, data in scene.logs}

    assert codes == CODES
    assert {name for name, secret in ALL.items() if secret.core.encode() in home} == WENT_HOME
    missing = [(p, w) for p, words in LOGGED.items() for w in words if w not in logs[p]]
    assert not missing, missing
    shown = {place.partition(" run_")[0]: data for place, data in scene.shown}
    assert {"journal", "run show", "doctor", "runs --json", "approvals show"} <= shown.keys()
    assert any(place.startswith("metrics of worker:") for place in shown)
    assert b"planted.pay" in shown["metrics of the exporter"]


@promise("secrets.kept-out")
async def test_no_planted_secret_is_found_anywhere(scene: Scene) -> None:
    """Not one byte of it: journal, records, registry, totals, logs, views, metrics."""
    password = urlsplit(scene.redis_url).password or ""
    known = {**ALL, "REDIS_PASSWORD": Planted(password, password)}
    found = [
        words
        for place, data in scene.all
        # A tool's definition is what the model reads, so a blob of them holds its description.
        for words in found_in(place, data, known, but="DESCRIBED" if place[:5] == "blob:" else "")
    ]

    assert len(password) > 16
    assert not found, f"{len(found)} found\n" + "\n".join(found)


async def test_another_detector_finds_nothing_either(scene: Scene) -> None:
    """detect-secrets knows nothing of our patterns; it does find what was planted."""
    planted_kinds = {kind for _, kind in detected([("all", "\n".join(TEXTS).encode())])}
    found = detected(scene.all)

    assert len(planted_kinds) > 5
    assert not found


TEXTS = [secret.text for secret in ALL.values()]


def detected(texts: Texts) -> set[tuple[str, str]]:
    """Return what detect-secrets finds: where and of which kind."""
    found: set[tuple[str, str]] = set()
    plugins = [{"name": name} for name in DETECTORS]
    with transient_settings({"plugins_used": plugins}):
        for place, data in texts:
            for line in data.decode(errors="replace").splitlines():
                found.update(
                    (f"{place}: {line[:200]}", secret.type)
                    for secret in scan_line(line)
                    # A mark between a user's name and a host looks like a password to it.
                    if secret.secret_value != REDACTED
                )
    return found
