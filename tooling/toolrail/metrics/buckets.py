"""The edges of all histograms, in seconds.

Is: one tuple per question, with where it comes from. Is not: which metric uses it
(`catalogue.py`). Above: the catalogue, `ledger/lua/_prelude.lua`, which has those of the ledger in
milliseconds and is held to them by a test. Below: nothing.

Every threshold of an objective or alert must be an edge, or it can only be guessed.
"""

MCP_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Requests to MCP servers. Source: MCP semantic conventions, `mcp.client.operation.duration`."""

DURATION_S = (0.005, *MCP_S)
"""Tools and whole calls. Source: MCP's edges, with one more in front for our own quick tools."""

QUEUE_WAIT_S = (
    *(0.005, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
)
"""Waiting for a worker. Source: as celery-exporter, edges are spent where people worry."""

APPROVAL_WAIT_S = (
    *(5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0),
    *(1800.0, 3600.0, 14_400.0, 43_200.0, 86_400.0),
)
"""Waiting for a person, to the longest expiry (`Settings.approval_expiry_s`)."""

LAG_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)
"""Event loop. The last edge is the lag at which a worker exits (`Settings.loop_lag_limit_s`)."""

REDIS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""One round trip. The last edge is the patience for a reply (`Settings.redis_timeout_s`)."""
