"""Run the CLI as `python -m toolrail`, which works without the console script on PATH.

Is: one line. Is not: the CLI (`toolrail.cli.main`).
Above: the supervisor starts workers this way. Below: `toolrail.cli.program`.
"""

from toolrail.cli.program import main

main()
