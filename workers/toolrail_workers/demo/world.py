"""The folder in which the demo happens.

Is: its policy, MCP servers file, settings and the run's input. Is not: any process.
Above: `show.py`. Below: the files of `policy/`, `toolrail_workers.mcp.provision`.
"""

import json
import shutil
from importlib.resources import as_file, files
from pathlib import Path

from toolrail.settings import Settings
from toolrail_workers.mcp.provision import provision_demo_server

NOTES = """\
# Notes

A governed call is judged before it is queued, claimed before it is run,
and stored before it is answered.
"""


def make_world(directory: Path, *, downloads: Path) -> Settings:
    """Write the demo's files into an empty folder and return the settings of its cluster.

    Args:
        directory: Where the demo happens.
        downloads: Where the MCP server is installed, once for all demos.

    Raises:
        ProvisionFailed: The MCP server could not be installed.
    """
    with as_file(files("toolrail_workers.demo").joinpath("policy")) as policy:
        shutil.copytree(policy, directory / "policy")
    servers_file = directory / "mcp.json"
    servers_file.write_text(json.dumps(provision_demo_server(downloads), indent=2) + "\n")
    return Settings(
        state_dir=directory / ".toolrail",
        workspace_root=directory / "workspaces",
        policy_dir=directory / "policy",
        mcp_servers_file=servers_file,
        tool_modules=("toolrail_workers.demo.tools",),
        # A killed worker is noticed when its lease ends; nobody wants to watch 30 seconds pass.
        lease_s=3.0,
        renew_s=1.0,
        loop_lag_limit_s=2.0,
        reaper_interval_s=0.5,
        drain_s=5.0,
    )


def put_input(settings: Settings, run_id: str) -> Path:
    """Put the notes into a run's workspace, as an agent service does; return the workspace."""
    workspace = settings.workspace_root / run_id
    (workspace / "input").mkdir(parents=True, exist_ok=True)
    (workspace / "input" / "notes.md").write_text(NOTES, encoding="utf-8")
    return workspace
