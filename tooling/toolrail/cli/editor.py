"""Let a person edit a text in the editor of their choice.

Is: a file that only they can read, in a folder of its own that is removed with whatever the editor
left beside it. Is not: the meaning of the text. Above: `approvals_edit.py`. Below: the editor.
"""

import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from toolrail.errors import ConfigError
from toolrail.settings import read_variable

VARIABLES = ("VISUAL", "EDITOR")
FALLBACKS = ("sensible-editor", "nano", "vim", "vi")


def edit_text(text: str, *, name: str) -> str:
    """Return what the person made of the text.

    Args:
        text: To begin with.
        name: Of the file; its suffix tells the editor the language.

    Raises:
        ConfigError: There is no editor, it does not start, or it ended with an error, which is
            also how a person gives up in some.
    """
    command = editor_command()
    with tempfile.TemporaryDirectory(prefix="toolrail-") as folder:
        file = Path(folder) / name
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        _run([*command, str(file)])
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise ConfigError("what the editor left behind is no UTF-8 text.") from None


def editor_command() -> list[str]:
    """Return the program and its arguments.

    Raises:
        ConfigError: Nothing is set, and none of the usual ones is installed.
    """
    for variable in VARIABLES:
        said = read_variable(variable)
        if said and said.strip():
            return shlex.split(said)
    for program in FALLBACKS:
        if shutil.which(program) is not None:
            return [program]
    raise ConfigError("there is no editor.", fix="Set EDITOR, or use --set or --file.")


def _run(command: list[str]) -> None:
    with _interrupts_are_the_editors():
        try:
            code = subprocess.run(command, check=False).returncode
        except OSError as error:
            fix = "Set EDITOR, or use --set or --file."
            raise ConfigError(f"{command[0]} does not start: {error.strerror}.", fix=fix) from None
    if code != 0:
        raise ConfigError(f"{command[0]} ended with exit code {code}.")


@contextmanager
def _interrupts_are_the_editors() -> Generator[None]:
    """Ctrl-C in the editor means the editor; a handler, unlike SIG_IGN, is not inherited."""

    def leave(number: int, frame: FrameType | None) -> None:
        pass

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
