"""`toolrail chat import`: put a chat that exists as a file where runs can read it.

Is: the chat store on a terminal. Is not: the store, nor what a model reads of it.
Above: `main.py`. Below: `toolrail.chat`.
"""

import sys
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from toolrail.chat import ChatKey, open_chat_store
from toolrail.chat.jsonl import read_jsonl
from toolrail.cli.options import UsageError
from toolrail.cli.start import start
from toolrail.cli.tables import print_json

STDIN = Path("-")

app = typer.Typer(help="Look after the chats that runs can read.", no_args_is_help=True)


@app.command("import")
def import_chat(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A JSON object on each line; - is stdin.")],
    *,
    chat: Annotated[str, typer.Option(help="Id of the chat, as runs are opened with it.")],
    tenant: Annotated[str, typer.Option(help="Whose chat it is.")] = "default",
    append: Annotated[bool, typer.Option("--append", help="Add to a chat that exists.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of a chat that exists.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Import a chat: all of the file's messages, or none.

    A line is {"role": "user", "content": "Hello"}, with a name if wanted, or a message as
    SillyTavern writes it. Bad lines are named by their numbers.
    """
    if append and replace:
        raise UsageError("--append and --replace exclude each other.", key="--append")
    settings = start(context)
    key = ChatKey(tenant, chat)
    store = open_chat_store(settings)
    try:
        before = store.count(key)
        if before and not (append or replace):
            raise UsageError(
                f"The chat {chat!r} exists, with {before} messages.",
                fix="Add --append or --replace, or choose another id.",
                key="--chat",
            )
        with _opened(file) as lines:
            total = store.append(key, read_jsonl(lines, name=str(file)), anew=replace)
    finally:
        store.close()
    added = total if replace else total - before
    if as_json:
        print_json({"chat": chat, "tenant": tenant, "imported": added, "messages": total})
        return
    typer.echo(f"imported {added} messages; the chat {chat!r} has {total}")


def _opened(file: Path) -> BinaryIO:
    if file == STDIN:
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read: {error.strerror}.", fix="Name a file.", key="FILE"
        ) from None
