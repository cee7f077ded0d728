"""The `toolrail` program.

Is: one module per command, and `main.py` which finds and runs them. Is not: anything a service
imports. Above: the console script. Below: `toolrail.client`, `toolrail.supervisor`.
"""
