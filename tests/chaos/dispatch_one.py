"""An agent service that makes one call and is killed on the way.

Is: a program, `python -m tests.chaos.dispatch_one RUN_ID CALL_ID FILE`. Is not: imported by tests.
Above: `test_dispatchers.py`. Below: `toolrail`.
"""

import asyncio
import sys

from toolrail import CallRequest, Settings, Toolrail


async def main(run_id: str, call_id: str, file: str) -> None:
    """Dispatch."""
    async with Toolrail(Settings.from_env()) as rail:
        run = await rail.run(run_id)
        await run.dispatch(CallRequest(id=call_id, name="effects.once", arguments={"file": file}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
