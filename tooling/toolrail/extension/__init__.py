"""Offer tools from a process of your own: what an extension author imports.

Is: `Extension`. Is not: the worker's side (`toolrail_workers.extension`); neither side ever runs
the other's code. Above: extensions. Below: `extension.py`.

    extension.py   the author's object: declare tools, serve them
    offer.py       a function as the tool that is registered
    session.py     one live session: hello, heartbeat, messages, goodbye
    calls.py       the calls of a session: limits, cancels, one answer each
    invocation.py  one call of one function
    answer.py      what a function returned as the message that is sent
    bridge.py      every step in Redis, of both sides; `lua/` has the scripts
"""

from toolrail.extension.extension import Extension

__all__ = ["Extension"]
