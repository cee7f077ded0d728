"""Start a command: settings, then logging.

Is: the one call every command makes first. Is not: a client.
Above: commands, also those of other packages. Below: `toolrail.settings`, `toolrail.logs`,
`toolrail.supervisor.state`.
"""

import typer

from toolrail.cli.options import GlobalOptions
from toolrail.logs import set_up_logging
from toolrail.redaction import know
from toolrail.settings import Settings
from toolrail.supervisor.state import find_cluster, with_cluster


def start(context: typer.Context, *, joins_cluster: bool = True) -> Settings:
    """Return the settings of this process, with logging set up by them.

    Args:
        context: Of the command; carries the global options.
        joins_cluster: Take what the environment does not say from the cluster that is up in this
            folder, as `toolrail up` left it in the state folder.

    Raises:
        ConfigError: A TOOLRAIL_ variable is wrong.
    """
    settings = Settings.from_env()
    options = options_of(context)
    said = {"log_level": options.log_level, "log_format": options.log_format}
    # Into the settings, so that child processes log in the same way.
    settings = settings.model_copy(update={k: v for k, v in said.items() if v is not None})
    set_up_logging(settings.log_level, settings.log_format)
    know(settings.secrets())
    cluster = find_cluster(settings.state_dir) if joins_cluster else None
    if cluster is None:
        return settings
    settings = with_cluster(settings, cluster)
    know(settings.secrets())
    return settings


def is_nowhere() -> bool:
    """Whether nothing says where the cluster is: no TOOLRAIL_REDIS_URL, and none up in this folder.

    Raises:
        ConfigError: A TOOLRAIL_ variable is wrong.
    """
    settings = Settings.from_env()
    return "redis_url" not in settings.model_fields_set and find_cluster(settings.state_dir) is None


def options_of(context: typer.Context) -> GlobalOptions:
    """Return the global options; the defaults when the command is run without the program."""
    found: object = context.find_root().obj
    return found if isinstance(found, GlobalOptions) else GlobalOptions()
