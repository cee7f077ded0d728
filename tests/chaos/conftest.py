"""Give the tests of faults one cell per test process: starting workers is most of their cost."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from tests.chaos.clients import Caller, open_caller
from tests.chaos.rig import Rig, open_rig

WORKERS = ("builtin.1", "builtin.2")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    """Two builtin workers; a test leaves them ready."""
    async with open_rig(tmp_path_factory.mktemp("rig"), *WORKERS) as rig:
        yield rig


@pytest_asyncio.fixture(loop_scope="session")
async def caller(rig: Rig) -> AsyncGenerator[Caller]:
    """A client with a run; afterwards the checker judges all that happened in it."""
    async with open_caller(rig) as caller:
        yield caller


@pytest.fixture
def long_version(request: pytest.FixtureRequest) -> bool:
    """Say whether a test may take its time."""
    return bool(request.config.getoption("--long"))
