"""Wait until the runtime has started, or say why it cannot.

Is: how a failed start becomes one sentence and an exit code. Is not: the start (`runtime.py`).
Above: `pool.py`, on the main thread. Below: `toolrail.exit_codes`.
"""

import concurrent.futures
import logging
from collections.abc import Callable

from toolrail import exit_codes
from toolrail.errors import ConfigError, ToolrailError

log = logging.getLogger(__name__)

LOOK_S = 0.02
"""How long a stop may go unnoticed."""


def wait_for_start(
    starting: "concurrent.futures.Future[None]", *, is_stopping: Callable[[], bool]
) -> int | None:
    """Return None once the runtime has started, else the exit code of a worker without one.

    Args:
        starting: The runtime's start, on another thread.
        is_stopping: Whether the worker was told to end meanwhile; the start is then cancelled.
    """
    while not starting.done():
        if is_stopping():
            starting.cancel()
            return exit_codes.OK
        concurrent.futures.wait([starting], timeout=LOOK_S)
    try:
        starting.result()
    except ConfigError as error:
        # Starting again does not help, and whoever supervises the worker should know.
        log.critical("worker.start_failed: %s", error.message)
        return exit_codes.CONFIG
    except ToolrailError as error:
        log.critical("worker.start_failed: %s", error.message)
    # The edge: whatever an executor's start raises, the worker ends in order.
    except Exception as error:
        log.critical("worker.start_failed: %s: %s", type(error).__name__, error)
        log.debug("worker.start_failed", exc_info=True)
    else:
        return None
    return exit_codes.FAILED
