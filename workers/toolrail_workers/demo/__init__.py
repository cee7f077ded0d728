"""Show Toolrail at work: a scripted agent on a real cluster, then what was promised and seen.

Is: `toolrail demo`; every process, file and call in it is real, only the agent follows a script.
Is not: imported by anything else.
Above: `toolrail_workers.commands`. Below: `toolrail.testing`, `toolrail.client`.

    show.py       the command: world, cluster, agent, table
    world.py      the folder it happens in: policy, MCP servers, input, settings
    agent.py      the script, turn by turn
    watch.py      the journal, printed as it happens and kept
    findings.py   what was promised, what was seen
    tools.py      two tools of a team's own
    glossary.py   the extension, a process of its own
    policy/       the policy folder of the demo
"""
