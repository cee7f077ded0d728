"""What runs tools: the Celery app, its pool and the executors of the three tool sources.

Is: installed with every wheel, usable with the extra `worker`. Is not: imported by agent services.
Above: `celery -A toolrail_workers.app`, `toolrail worker`. Below: `toolrail`, Celery, the MCP SDK.
"""

import importlib.util

if importlib.util.find_spec("celery") is None:
    raise ImportError("toolrail_workers needs its extra. Run: pip install 'toolrail[worker]'")
