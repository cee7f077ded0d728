"""Which servers are accepted.

Is: readings of INFO replies. Is not: a connection. Above: nothing. Below: `toolrail.redis_version`.
"""

import pytest

from toolrail.errors import RedisTooOld
from toolrail.redis_version import read_version


def test_redis_7_0_is_the_oldest_accepted() -> None:
    """The version Debian 12 brings."""
    version = read_version({"redis_version": "7.0.15"})

    assert str(version) == "redis 7.0.15"


def test_valkey_is_known_by_its_own_version() -> None:
    """Its `redis_version` stays at 7.2.4 for clients."""
    version = read_version({"redis_version": "7.2.4", "valkey_version": "9.1.2"})

    assert str(version) == "valkey 9.1.2"
    assert version.redis_version == (7, 2, 4)


@pytest.mark.parametrize("said", ["6.2.18", "5.0", "unstable"])
def test_an_older_server_is_refused_by_name(said: str) -> None:
    """The message says what was found and what to use."""
    with pytest.raises(RedisTooOld, match=f"says {said}. Use Redis 7.0 or newer"):
        read_version({"redis_version": said})


def test_a_server_that_says_nothing_is_refused() -> None:
    """Better than failing later in a script."""
    with pytest.raises(RedisTooOld, match="no version"):
        read_version({})


def test_a_release_candidate_counts_as_its_release() -> None:
    """`8.0-rc1` has the numbers of what it will be, as far as they are plain."""
    assert read_version({"redis_version": "8.0.0-rc1"}).version == (8, 0)
