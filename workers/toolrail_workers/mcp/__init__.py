"""Run the tools of MCP servers: one owner task per server, many concurrent calls.

Is: the executor of source `mcp` and everything below it. Start reading at `executor.py`, then
`server.py` (one server's life) and `connection.py` (one connection). `config.py` reads the
servers file; `stdio.py` and `process.py` are the transport; `tap.py` and `sanitize.py` clean what
a server says; `listing.py` makes tool specs of it, `mapping.py` and `blocks.py` make results.
Is not: the gateway, where Toolrail itself is an MCP server.
Above: `toolrail_workers.runtime`. Below: the MCP SDK.
"""
