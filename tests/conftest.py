"""What every test gets.

Is: a clean environment, the server fixtures and the markers. Is not: fixtures of one subject, which
stand beside its tests. Above: pytest. Below: `tests/servers.py`, `tests/promises.py`.
"""

import os
from collections.abc import Generator

import pytest

from tests.cli import cli
from tests.servers import (
    FAILED,
    REDIS_KINDS,
    key_prefix,
    rabbit_node,
    rabbitmq_url,
    redis_client,
    redis_servers,
    redis_url,
    settings,
    start_redis,
)
from toolrail.settings import own_environment

__all__ = [
    "cli",
    "key_prefix",
    "rabbit_node",
    "rabbitmq_url",
    "redis_client",
    "redis_servers",
    "redis_url",
    "settings",
    "start_redis",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make chaos` and `make fuzz` ask for more than there is time for otherwise."""
    parser.addoption("--long", action="store_true", help="faults last as long as they may")
    parser.addoption(
        "--examples", type=int, default=100, help="lives per kind of server in the state machine"
    )


def pytest_configure() -> None:
    """Forget the TOOLRAIL_ variables of the developer's shell, for us and for child processes."""
    clean = own_environment()
    for name in set(os.environ) - clean.keys():  # noqa: TID251  # it is cleaned here
        del os.environ[name]  # noqa: TID251  # it is cleaned here


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that needs Redis on each kind of server, or on one if it is marked so."""
    if "redis_kind" in metafunc.fixturenames:
        one = metafunc.definition.get_closest_marker("one_redis") is not None
        metafunc.parametrize("redis_kind", REDIS_KINDS[:1] if one else REDIS_KINDS)


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> int:
    """Return how many lives the state machine of the ledger lives on each kind of server."""
    return int(str(request.config.getoption("--examples")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed, so that its leftovers are not told on top."""
    report = yield
    item.stash[FAILED] = report.failed or item.stash.get(FAILED, False)
    return report
