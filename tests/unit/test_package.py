"""What `import toolrail` gives and what it costs.

Is: the public names of the package. Is not: what they do.
Above: nothing. Below: `toolrail`.
"""

import re
import subprocess
import sys

import pytest

import toolrail
from tests.sources import python_files, read


@pytest.mark.parametrize("name", sorted(toolrail.__all__))
def test_every_public_name_is_there(name: str) -> None:
    """Each is loaded when it is first asked for."""
    assert getattr(toolrail, name) is getattr(toolrail, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Laziness does not hide a typing error."""
    with pytest.raises(AttributeError, match="no attribute 'toll'"):
        getattr(toolrail, "toll")  # noqa: B009  # a constant name would not type-check


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`toolrail --help` and the children of tools do not pay for the client."""
    code = "import sys, toolrail; print(sorted({'pydantic', 'redis', 'kombu'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_speaking_a_providers_format_needs_no_sdk() -> None:
    """The agent service has its own, in the version it likes."""
    names = {"openai", "anthropic", "google.genai", "mcp", "jsonschema", "httpx", "redis"}
    code = f"import sys, toolrail.providers; print(sorted({names!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_only_the_providers_know_their_fields() -> None:
    """The runtime works on calls and results; a new provider edits nothing of it."""
    fields = re.compile(
        "tool_use_id|function_call_output|functionCall|functionResponse|thoughtSignature"
        "|encrypted_content|redacted_thinking|input_json_delta"
    )
    found = [
        str(file)
        for file in python_files("tooling", "workers", "schemas")
        if "providers" not in file.parts and fields.search(read(file))
    ]

    assert not found
