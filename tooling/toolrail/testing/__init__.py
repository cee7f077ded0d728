"""What tests of agent services and tools need: a real cluster on this machine.

Is: public; Toolrail's own tests and its demo use the same. Is not: assertions or fixtures of a
test framework.
Above: tests, the demo. Below: `toolrail.supervisor`, `toolrail.client`.

    async with Cluster(tmp_path) as cluster, cluster.client() as rail:
        run = await rail.open_run(profile="assistant")
"""

from toolrail.testing.cluster import Cluster

__all__ = ["Cluster"]
