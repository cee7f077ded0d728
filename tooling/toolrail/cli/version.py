"""`toolrail version`: which versions are in use.

Is: what a bug report needs. Is not: a check of them (`doctor.py`).
Above: `main.py`. Below: importlib.metadata.
"""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import typer

_PACKAGES = ("toolrail", "celery", "kombu", "redis", "mcp", "pydantic")


def version() -> None:
    """Print the versions in use."""
    for package in _PACKAGES:
        typer.echo(f"{package} {_version(package)}")
    typer.echo(f"python {platform.python_version()} on {platform.system().lower()}")


def _version(package: str) -> str:
    try:
        return version_of(package)
    except PackageNotFoundError:
        return "not installed"
