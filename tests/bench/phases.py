"""Take one queue through the race: preload and drain, 32 clients at once, one client alone.

Is: what is the same for every queue, for clients that block and for clients of an event loop. Is
not: a queue (`contenders/`), processes (`contender.py`) or the comparison (`race.py`). Above:
`contender.py`, inside each queue's own environment. Below: the standard library and psutil, since
nothing else is in all of those environments.

The same for all: the payload, which is echoed and compared as a whole; one client process; one
worker process, warm; the caller has each result in its hands, in the order of sending.
*Drain*: the worker is stopped (SIGSTOP), all calls are sent, the worker goes on; calls divided by
the time from there to the last result; also the CPU time of client and worker, which other programs
on the machine disturb less. *Clients*: each sends, awaits the result, sends the next.
What differs, because the queues do: a blocking client collects one result after the other and has
a thread for each of 32 clients; an asyncio client awaits 50 results at a time and has tasks.
"""

import asyncio
import json
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import psutil

Payload = dict[str, object]
Figures = dict[str, float]

WARM_UP = 60
WINDOW = 50
"""What an asyncio client sends and awaits at a time, see the header."""
CLIENTS = 32
PATIENCE_S = 60.0
"""For one result; a queue that takes longer has lost it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many calls each part of the race has; 0 leaves the part out."""

    drain: int = 0
    clients: int = 0
    lone: int = 0

    def dumps(self) -> str:
        """Return it as a program's argument."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> "Plan":
        """Return what `dumps` wrote."""
        return cls(**json.loads(text))


class Blocking(Protocol):
    """A client that blocks; used from several threads."""

    def send(self, payload: Payload, /) -> object:
        """Return a handle of the accepted call."""
        ...

    def result(self, handle: object, /) -> object:
        """Return the result, as soon as there is one."""
        ...


class Async(Protocol):
    """A client of one event loop."""

    async def send(self, payload: Payload, /) -> object:
        """Return a handle of the accepted call."""
        ...

    async def result(self, handle: object, /) -> object:
        """Return the result, as soon as there is one."""
        ...


class Worker(Protocol):
    """The one worker process."""

    def pause(self) -> None:
        """Stop it where it is."""
        ...

    def resume(self) -> None:
        """Let it go on."""
        ...


def payload(number: int) -> Payload:
    """Return the arguments of a call: a tool call as a model makes it, 329 bytes of JSON."""
    return {
        "tool": "web.search",
        "call_id": f"call_{number:012d}",
        "session": "s-5f2c9b1e77aa4c0d",
        "args": {
            "query": "latest weather in Reykjavik and a packing list for three days",
            "limit": 10,
            "lang": "en",
            "safe": True,
        },
        "meta": {
            "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00",
            "step": 7,
            "attempt": 1,
            "budget_ms": 30000,
        },
    }


def check(result: object, number: int) -> None:
    """The result is the echo of that call, whole; anything quicker than that does not count."""
    if result != payload(number):
        raise SystemExit(f"call {number} came back as {str(result)[:300]}")


def run_blocking(client: Blocking, worker: Worker, plan: Plan) -> Figures:
    """Take a blocking client through the race."""
    for number in range(WARM_UP):
        check(client.result(client.send(payload(number))), number)
    figures: Figures = {}
    if plan.drain:
        worker.pause()
        handles = [client.send(payload(number)) for number in range(plan.drain)]
        begun, cpu_s = time.perf_counter(), used_cpu_s()
        worker.resume()
        for number, handle in enumerate(handles):
            check(client.result(handle), number)
        figures |= drain_figures(plan.drain, time.perf_counter() - begun, used_cpu_s() - cpu_s)
    for clients, calls in ((CLIENTS, plan.clients), (1, plan.lone)):
        if calls:
            figures |= _blocking_clients(client, clients, calls)
    return figures


def _blocking_clients(client: Blocking, clients: int, calls: int) -> Figures:
    numbers = iter(range(calls))
    latencies: list[float] = []
    failures: list[BaseException] = []

    def call_on() -> None:
        try:
            for number in numbers:  # one step of a range's iterator: threads share it safely
                begun = time.perf_counter()
                check(client.result(client.send(payload(number))), number)
                latencies.append(time.perf_counter() - begun)
        except BaseException as error:  # noqa: BLE001  # raised again, in the thread that counts
            failures.append(error)

    threads = [threading.Thread(target=call_on, daemon=True) for _ in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - begun
    if failures:
        raise failures[0]
    return latency_figures(clients, latencies, took_s)


async def run_async(client: Async, worker: Worker, plan: Plan) -> Figures:
    """Take an asyncio client through the race."""
    for number in range(WARM_UP):
        check(await client.result(await client.send(payload(number))), number)
    figures: Figures = {}
    if plan.drain:
        worker.pause()
        handles = await _send(client, plan.drain)
        begun, cpu_s = time.perf_counter(), used_cpu_s()
        worker.resume()
        await _collect(client, handles)
        figures |= drain_figures(plan.drain, time.perf_counter() - begun, used_cpu_s() - cpu_s)
    for clients, calls in ((CLIENTS, plan.clients), (1, plan.lone)):
        if calls:
            figures |= await _async_clients(client, clients, calls)
    return figures


async def _send(client: Async, count: int) -> list[object]:
    handles: list[object] = []
    for first in range(0, count, WINDOW):
        numbers = range(first, min(first + WINDOW, count))
        handles += await asyncio.gather(*(client.send(payload(number)) for number in numbers))
    return handles


async def _collect(client: Async, handles: Sequence[object]) -> None:
    for first in range(0, len(handles), WINDOW):
        window = handles[first : first + WINDOW]
        results = await asyncio.gather(*(client.result(handle) for handle in window))
        for number, result in enumerate(results, start=first):
            check(result, number)


async def _async_clients(client: Async, clients: int, calls: int) -> Figures:
    latencies: list[float] = []

    async def call_on(numbers: Iterator[int]) -> None:
        for number in numbers:
            begun = time.perf_counter()
            check(await client.result(await client.send(payload(number))), number)
            latencies.append(time.perf_counter() - begun)

    shared = iter(range(calls))
    begun = time.perf_counter()
    await asyncio.gather(*(call_on(shared) for _ in range(clients)))
    return latency_figures(clients, latencies, time.perf_counter() - begun)


def used_cpu_s() -> float:
    """Return the CPU seconds of this process and all that it started."""
    this = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in (this, *this.children(recursive=True)))


def drain_figures(calls: int, took_s: float, cpu_s: float) -> Figures:
    """Return calls per second, and what each took of the CPU."""
    return {"drain_per_s": calls / took_s, "drain_cpu_us": cpu_s / calls * 1e6}


def latency_figures(clients: int, latencies: Sequence[float], took_s: float) -> Figures:
    """Return calls per second and two percentiles in milliseconds."""
    percentiles = statistics.quantiles(latencies, n=100, method="inclusive")
    return {
        f"c{clients}_per_s": len(latencies) / took_s,
        f"c{clients}_p50_ms": percentiles[49] * 1e3,
        f"c{clients}_p99_ms": percentiles[98] * 1e3,
    }
