"""Run a Toolrail cluster, or any set of processes, on this machine.

Is: the supervisor of `toolrail up` and of the test kit. Is not: a deployment tool; production
clusters are run by systemd or Kubernetes, which start the same `toolrail worker` commands.
Above: `toolrail.cli`, `toolrail.testing`. Below: `toolrail.embedded`, `toolrail.settings`.
"""
