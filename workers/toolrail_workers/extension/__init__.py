"""Run the tools that extensions offer from processes of their own.

Is: the executor of source `extension`. Is not: the extension's side (`toolrail.extension`); no code
of an extension ever runs here. Above: `runtime.py`. Below: `toolrail.extension.bridge`.

    executor.py    one call: ask, wait, give up, tell
    directory.py   which extensions there are and what they offer
    listener.py    the one reader of answers and changes
    mailbox.py     answers by call: the first counts, a second that differs does not pass
    reading.py     an answer, believed in nothing, as a tool's output
    faults.py      what a model is told when there is none
"""
