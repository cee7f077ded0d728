"""Find the cell to work with: what the environment names, else the cluster up in this folder.

Is: `connect`, the first line of an agent service. Is not: the client (`client.py`) or the
settings. Above: agent services, scripts. Below: `client.py`, `toolrail.supervisor.state`.
"""

from toolrail.client import Toolrail
from toolrail.errors import SecretMissing
from toolrail.settings import Settings
from toolrail.supervisor.state import find_cluster, with_cluster


def connect(settings: Settings | None = None) -> Toolrail:
    """Return a client, to be entered with `async with`.

    Args:
        settings: Complete settings; None takes the TOOLRAIL_ variables and, for what they do not
            say, the cluster that `toolrail up` runs in this folder.

    Raises:
        ConfigError: A variable is wrong.
        SecretMissing: Neither the variables nor a cluster have the secret.
    """
    return Toolrail(found_settings(settings))


def found_settings(settings: Settings | None = None) -> Settings:
    """Return the settings to connect with; see `connect`."""
    if settings is not None:
        return settings
    found = Settings.from_env()
    cluster = find_cluster(found.state_dir)
    if cluster is None and found.secret is None:
        raise SecretMissing(
            "no cluster is up in this folder, and no secret is set.",
            fix="Run `toolrail up` here, or set TOOLRAIL_REDIS_URL and TOOLRAIL_SECRET_FILE.",
        )
    return found if cluster is None else with_cluster(found, cluster)
