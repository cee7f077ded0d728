"""Two MCP servers that others wrote, each in an environment of its own.

Is: the proof that the executor talks to real servers of both eras, Python and node.
Is not: faults (`tests/component/test_mcp_faults.py`). Above: nothing.
Below: `tests/mcp_servers.py`, which installs them once at pinned versions.
"""

import os

import psutil
import pytest

from tests.mcp_servers import BUILD, everything_entry, running, text_of, time_entry
from toolrail_schemas import ImageRefBlock, ResourceRefBlock
from toolrail_workers.mcp.provision import provision_demo_server

pytestmark = pytest.mark.timeout(300)  # the first run installs packages


async def test_the_reference_time_server_answers_from_its_own_environment() -> None:
    """The modern era, and a process group and interpreter that are not the worker's."""
    async with running({"time": time_entry()}) as bench:
        await bench.ready("time")
        spec = bench.spec("time", "convert_time")
        output = await bench.call(
            "time",
            "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        )
        # This process may have started other servers for other tests.
        (server,) = (
            child
            for child in psutil.Process().children()
            if str(BUILD) in " ".join(child.cmdline())
        )

        assert spec.annotations.read_only
        assert isinstance(output.structured, dict)
        assert "+9" in str(output.structured["time_difference"])
        assert os.getpgid(server.pid) == server.pid


async def test_the_node_reference_server_answers_in_the_legacy_era() -> None:
    """Text, structure, image and links of a server that declares JSON Schema draft 7."""
    async with running({"everything": everything_entry()}) as bench:
        await bench.ready("everything")
        echo = await bench.call("everything", "echo", {"message": "hello"})
        weather = await bench.call("everything", "get-structured-content", {"location": "New York"})
        picture = await bench.call("everything", "get-tiny-image")
        links = await bench.call("everything", "get-resource-links", {"count": 2})
        wrong = await bench.call("everything", "get-sum", {"a": 1})

        assert text_of(echo) == "Echo: hello"
        assert isinstance(weather.structured, dict)
        assert any(isinstance(block, ImageRefBlock) for block in picture.content)
        assert sum(isinstance(block, ResourceRefBlock) for block in links.content) == 2
        assert wrong.error_code == "tool.mcp_error"


def test_provisioning_again_installs_nothing() -> None:
    """The program is there after the first time, and later calls only look."""
    first = provision_demo_server(BUILD)
    program = BUILD / "mcp-server-time" / "bin" / "mcp-server-time"
    made_at = program.stat().st_mtime_ns

    assert provision_demo_server(BUILD) == first
    assert program.stat().st_mtime_ns == made_at
