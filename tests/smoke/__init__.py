"""Run the deployment of `compose/` for real, under podman: `make compose-smoke`.

Is: a program of its own, which builds the image and runs the stack. Is not: collected by pytest,
nor needed by anything. Above: the Makefile. Below: podman, `docker-compose`.
"""
