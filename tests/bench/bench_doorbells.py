"""Measure what a doorbell costs a worker: the batch transport against kombu's own.

Is: a number for README and for judging changes. Is not: a test; nothing fails here.
Run: `python -m tests.bench.bench_doorbells [doorbells]`, with nothing else on the machine.
Above: a person. Below: a real Redis, a real worker, and a runtime that does nothing.
"""

import sys
import tempfile
import time
from pathlib import Path

import psutil
import redis
from pydantic import SecretStr

from tests.celery_worker import CeleryWorker
from tests.fake_runtime import Deed
from tests.waiting import wait_until
from toolrail.embedded import EmbeddedRedis
from toolrail.settings import Settings

CHUNK = 1_000
WARM_UP = 2_000


def measure(url: str, folder: Path, *, transport: str, doorbells: int) -> float:
    """Return how many doorbells a worker drains per second; print that and what one costs."""
    settings = Settings.model_validate(
        {
            "redis_url": url,
            "secret": SecretStr("a secret for benches only"),
            "state_dir": folder / transport,
            "transport": transport,
            "log_level": "info",
        }
    )
    worker = CeleryWorker(settings)
    with redis.Redis.from_url(url) as client:
        worker.start()
        process = psutil.Process(worker.process.pid)
        drain(worker, client, WARM_UP)
        before = process.cpu_times()
        took_s = drain(worker, client, doorbells)
        after = process.cpu_times()
    worker.stop()
    cpu_s = after.user + after.system - before.user - before.system
    rate = doorbells / took_s
    print(  # the result
        f"{transport:>6}: {rate:8,.0f} doorbells/s, {cpu_s / doorbells * 1e6:5.0f} us of CPU each"
    )
    return rate


def drain(worker: CeleryWorker, client: redis.Redis, doorbells: int) -> float:
    """Push doorbells behind a closed door, open it, and return the seconds until none is left."""
    hidden = f"{worker.key}:hidden"
    for _ in range(doorbells // CHUNK):
        texts = [worker.message(Deed.QUICK) for _ in range(CHUNK)]
        client.lpush(hidden, *texts)
    began = time.perf_counter()
    client.rename(hidden, worker.key)
    wait_until(lambda: client.llen(worker.key) == 0, "the queue is empty", timeout_s=600)
    return time.perf_counter() - began


def main() -> None:
    """Run both transports on one fresh server."""
    doorbells = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        with EmbeddedRedis(Path(folder) / "redis", append_only=False) as server:
            print(f"{server.version}, {psutil.cpu_count()} cores, {doorbells:,} doorbells")
            rates = {
                transport: measure(
                    server.url, Path(folder), transport=transport, doorbells=doorbells
                )
                for transport in ("stock", "batch")
            }
        print(f" ratio: {rates['batch'] / rates['stock']:8.1f}")


if __name__ == "__main__":
    main()
