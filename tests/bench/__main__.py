"""Run the benches that the README names, one after another: `python -m tests.bench`.

Is: what `make bench` runs. Is not: a test. Above: a person. Below: the single benches, which can
be run alone, with arguments.
"""

import asyncio

from tests.bench import bench_calls, bench_metrics, bench_policy

if __name__ == "__main__":
    bench_policy.main()
    asyncio.run(bench_calls.main(5_000))
    asyncio.run(bench_metrics.main())
