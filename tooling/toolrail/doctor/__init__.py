"""Look at a machine and its cell, and say what is wrong and what to do.

Is: `examine`, and one module for each noun that can be ill. Is not: monitoring over time
(`/metrics`), or repairing anything: nothing is written anywhere. Above: `toolrail doctor`.
Below: the modules here.
"""

from toolrail.doctor.examine import examine
from toolrail.doctor.finding import Finding, Level

__all__ = ["Finding", "Level", "examine"]
