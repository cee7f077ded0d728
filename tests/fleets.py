"""Let workers be seen that are not there.

Is: records as workers write them. Is not: a worker. Above: tests of what operators see.
Below: `toolrail.fleet`.
"""

from dataclasses import replace

from toolrail.fleet import Fleet, WorkerRecord

TTL_MS = 60_000

RECORD = WorkerRecord(
    worker="w1",
    sources=("builtin",),
    queues=("builtin",),
    slots=10,
    busy=3,
    draining=False,
    pid=1,
    host="here",
    version="1",
    build="b1",
    started_ms=1,
    seen_ms=1,
    metrics_address="",
    loop_lag_ms=1,
    last_progress_ms=1,
)


async def appear(
    fleet: Fleet,
    worker: str,
    *sources: str,
    busy: int = 3,
    draining: bool = False,
    host: str = "here",
    build: str = "b1",
    version: str = "1",
    ttl_ms: int = TTL_MS,
) -> bool:
    """Write the record of a worker now; return whether it is asked to drain."""
    now_ms = await fleet.now_ms()
    record = replace(
        RECORD,
        worker=worker,
        sources=sources or ("builtin",),
        queues=sources or ("builtin",),
        busy=busy,
        draining=draining,
        host=host,
        build=build,
        version=version,
        started_ms=now_ms - 60_000,
        seen_ms=now_ms,
        last_progress_ms=now_ms,
    )
    return await fleet.say(record, ttl_ms=ttl_ms)
