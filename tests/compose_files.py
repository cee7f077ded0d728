"""The files of `compose/`, as Compose itself reads them.

Is: rendering by the `docker-compose` program, which needs no engine. Is not: a rule
(`compose_rules.py`). Above: tests of the deployment. Below: `docker-compose` of the dev group.
"""

import functools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.compose_rules import Node
from tests.sources import ROOT
from toolrail.settings import own_environment

COMPOSE = ROOT / "compose"
EXAMPLE = COMPOSE / ".env.example"
BASE = ("compose.yaml",)
DEV = ("compose.yaml", "compose.dev.yaml")
PROFILES = ("cli", "monitoring")


def program(name: str) -> Path:
    """Return a program of the development environment."""
    return Path(sys.executable).with_name(name)


def run_compose(
    *words: str,
    files: tuple[str, ...] = BASE,
    profiles: tuple[str, ...] = (),
    env_file: Path = EXAMPLE,
    variables: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run `docker-compose` on files of `compose/`.

    Args:
        words: The command.
        files: Names in `compose/`.
        profiles: To switch on, besides those of the environment file.
        env_file: Instead of `.env`.
        variables: The whole environment, but for PATH and HOME.
    """
    usual = own_environment()
    options = [option for file in files for option in ("-f", file)]
    options += [option for profile in profiles for option in ("--profile", profile)]
    return subprocess.run(
        [program("docker-compose"), "--env-file", env_file, *options, *words],
        cwd=COMPOSE,
        env={"PATH": usual["PATH"], "HOME": usual.get("HOME", "/"), **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@functools.cache
def rendered(files: tuple[str, ...] = BASE, profiles: tuple[str, ...] = PROFILES) -> Node:
    """Return the configuration as Compose understands it, defaults filled in."""
    done = run_compose("config", "--format", "json", files=files, profiles=profiles)
    assert done.returncode == 0, done.stderr
    config: Node = json.loads(done.stdout)
    return config
