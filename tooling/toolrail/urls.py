"""Write a URL without its password.

Is: two spellings, for a log and for a child process. Is not: a check of URLs (`settings.py`).
Above: settings, commands that print where something is. Below: nothing.
"""

from urllib.parse import urlsplit, urlunsplit


def redact_url(url: str) -> str:
    """Return the URL with its password replaced, fit for a log or an error."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    _, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{host}"))


def without_password(url: str) -> str:
    """Return the URL with its user but no password, as a child process gets it."""
    login, _, host = (netloc := urlsplit(url).netloc).rpartition("@")
    user = login.partition(":")[0]
    # Put together by hand: `urlunsplit` drops the slashes of a socket's URL with no user.
    return url.replace(f"//{netloc}", f"//{user}@{host}" if user else f"//{host}", 1)
