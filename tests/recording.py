"""Play one approval on a real cluster with the real commands, and write down what was seen.

Is: `python -m tests.recording`, which puts the transcript into tooling/APPROVALS.md; the test of it
plays it again. Is not: an assertion. Above: `make recording`, `test_approvals_recording.py`.
Below: `toolrail.testing`, `tests/terminals.py`.

Every line between prompts is what a command printed on a terminal of 100 columns.
"""

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

from tests.terminals import Terminal
from toolrail.settings import Settings, own_environment
from toolrail.testing import Cluster

DOC = Path(__file__).parents[1] / "tooling" / "APPROVALS.md"
BEGIN, END = "<!-- recording: make recording -->\n```\n", "```\n<!-- end -->\n"
KEY = "sk-0123456789abcdefghijklmn"
"""The model passes it; it is in no line of the transcript."""
MAILS = {"7.json": "all@example.com", "8.json": "bob@example.com"}
COLUMNS = 100
_TELLING = (
    (re.compile(r"run_[0-9A-Z]{26}"), "RUN"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "SHA"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "KEY"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z|\b\d\d:\d\d:\d\d(?:\.\d+)?Z?"), "WHEN"),
    (re.compile(r"\b(?:\d+ [ms] ?)+(?=left|ago|\s)"), "AGE "),
    (re.compile(r"cli-[0-9a-f]{12}"), "CALL"),
)


@dataclass
class Script:
    """What people typed on which terminal, and what they saw."""

    env: Mapping[str, str]
    cwd: Path
    lines: list[str] = field(default_factory=list[str])

    def say(self, text: str) -> None:
        """Write a heading between the commands."""
        self.lines += ["", f"# {text}", ""]

    def note(self, who: str, words: list[str], screen: str) -> None:
        """Write down one command and what it showed."""
        shown = [
            f"{who}$ toolrail {' '.join(map(_quoted, words))}",
            *screen.strip("\n").split("\n"),
        ]
        self.lines += [line.rstrip() for line in shown]

    def start(self, *words: str) -> Terminal:
        """Start a command on a terminal of its own."""
        return Terminal(words, env=self.env, cwd=self.cwd, columns=COLUMNS)

    def run(self, who: str, *words: str, answers: Mapping[str, str] | None = None) -> str:
        """Run a command to its end, answer its prompts, and write it down."""
        with self.start(*words) as terminal:
            for prompt, answer in (answers or {}).items():
                terminal.expect(prompt)
                terminal.type(answer)
            terminal.wait()
            self.note(who, list(words), terminal.screen)
            return terminal.screen


def play(script: Script) -> str:
    """Play the whole approval; return the transcript."""
    watching = script.start("approvals", "watch")
    with watching:
        script.say(
            "An agent opens a run with somebody to ask, and its model wants to mail everybody."
        )
        run_id = script.run("agent", "run", "open", "--approval-mode", "interactive").strip()
        _edited(script, watching, run_id)
        _approved(script, watching, run_id)
        watching.interrupt()
        watching.wait()
    script.say("Ana's other terminal, which was open all the while.")
    script.note("ana", ["approvals", "watch"], watching.screen)
    return "\n".join(script.lines).strip("\n") + "\n"


def _edited(script: Script, watching: Terminal, run_id: str) -> None:
    call = ["call", "outbox.send", "--run", run_id, "--id", "c1", "--args", "@7.json"]
    with script.start(*call) as calling:
        watching.expect("outbox.send")
        script.say("The call waits; no worker, lock or budget is held. Ana looks.")
        listed = script.run("ana", "approvals", "list")
        short_id = listed.splitlines()[1].split()[0]
        script.lines.append("")
        script.run("ana", "approvals", "show", short_id, "--full")
        script.say("Not to everybody. Ana corrects the address and approves.")
        edit = ("approvals", "edit", short_id, "--set", 'to="bob@example.com"')
        script.run("ana", *edit, answers={"[y/N]: ": "y"})
        script.lines.append("")
        script.run("ana", *edit, "--yes")
        calling.expect("run_")
        calling.wait()
        watching.expect("with edited arguments")
        script.say("What the agent's call printed meanwhile.")
        script.note("agent", call, calling.screen)
        script.say("Who decided, and how, stays with the question, and in the run's journal.")
        with script.start("approvals", "show", short_id) as showing:
            showing.wait()
            head = showing.screen.splitlines()[:2]
        script.note("ana", ["approvals", "show", short_id, "| head -2"], "\n".join(head))


def _approved(script: Script, watching: Terminal, run_id: str) -> None:
    call = ["call", "outbox.send", "--run", run_id, "--id", "c2", "--args", "@8.json"]
    with script.start(*call) as calling:
        watching.expect("asked")
        script.say("The next one is the only one that waits.")
        script.run("ana", "approvals", "approve", answers={"[y/N]: ": "y"})
        calling.expect("run_")
        calling.wait()
        watching.expect("for this call")


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w./=@|-]+(?: head -2)?", word) else f"'{word}'"


async def record(folder: Path) -> str:
    """Start a cluster, play, and return the transcript."""
    settings = Settings(tool_modules=("tests.outbox",))
    async with Cluster(folder, settings=settings, scale={"builtin": 1}) as cluster:
        for file, to in MAILS.items():
            mail = {"to": to, "subject": f"Invoice {file[0]}", "body": "Hello!", "api_key": KEY}
            (folder / file).write_text(json.dumps(mail), encoding="utf-8")
        env = {**own_environment(), **cluster.environment(), "LOGNAME": "ana"}
        return await asyncio.to_thread(play, Script(env, folder))


def normal(transcript: str) -> str:
    """Return what two plays have in common: no ids, no times, no accidents of line breaks."""
    text = transcript
    for pattern, name in _TELLING:
        text = pattern.sub(name, text)
    return " ".join(text.split())


def differences(transcript: str, other: str) -> list[str]:
    """Return the words in which two plays differ."""
    before, after = normal(other).split(), normal(transcript).split()
    return list(unified_diff(before, after, n=3, lineterm=""))


def written() -> str:
    """Return the transcript that stands in the document."""
    return DOC.read_text(encoding="utf-8").split(BEGIN, 1)[1].split(END, 1)[0]


def main() -> None:
    """Play it, print it, and put it into the document."""
    with tempfile.TemporaryDirectory() as folder:
        transcript = asyncio.run(record(Path(folder)))
    sys.stdout.write(transcript)
    text = DOC.read_text(encoding="utf-8")
    head, tail = text.split(BEGIN, 1)[0], text.split(END, 1)[1]
    DOC.write_text(f"{head}{BEGIN}{transcript}{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
