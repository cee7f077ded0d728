"""`toolrail approvals approve`, `deny` and `edit` against a real cell: lines and exit codes.

Is: decisions as a script makes them. Is not: prompts and editors, which need a terminal
(`test_approvals_terminal.py`). Above: nothing. Below: `toolrail.cli.approvals`.
"""

import asyncio
import io
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.approval_shell import RULES, Desk, mail, open_desk, short
from tests.cells import serve
from tests.letters import lose
from tests.waiting import await_until
from toolrail import CallRequest, Settings
from toolrail.cli.main import run as run_command
from toolrail.results import error_text
from toolrail_schemas import ApprovalState

pytestmark = pytest.mark.one_redis

NO_ID = f"run_01J00000000000000000000000.{'0' * 16}"
NOT_FOUND, REFUSED, NO_REDIS, CONFLICT, USAGE = 1, 2, 3, 4, 64


@pytest.fixture
async def desk(
    settings: Settings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Desk]:
    """Give a desk where anybody may decide; lena is logged in."""
    monkeypatch.setenv("LOGNAME", "lena")
    specs = [mail()]
    async with open_desk(settings, tmp_path, capsys, monkeypatch, specs=specs) as desk:
        yield desk


@pytest.fixture
async def ruled(
    settings: Settings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Desk]:
    """Give a desk where the policy says who decides, and wants to be asked each time."""
    async with open_desk(settings, tmp_path, capsys, monkeypatch, platform=RULES) as desk:
        yield desk


async def state_of(desk: Desk, approval_id: str) -> ApprovalState:
    """Return where a question stands."""
    return (await desk.cell.rail.approvals.get(approval_id)).state


async def test_an_approval_says_as_whom_and_the_login_is_the_default(desk: Desk) -> None:
    """The name is in the line, in the record and in the journal."""
    first, second = await desk.park("c1"), await desk.park("c2")
    as_login = await desk("approve", short(first))
    as_ana = await desk("approve", second, "--by", "ana")
    record = await desk.cell.rail.approvals.get(second)

    assert as_login.out == f"{short(first)}  demo.ask  approved as lena; the call is queued\n"
    assert (as_ana.code, "approved as ana" in as_ana.out) == (0, True)
    assert (record.state, record.decided_by) == (ApprovalState.APPROVED, "ana")


async def test_a_login_that_all_share_decides_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the image: the name must be given, or the journal would know only the container."""
    monkeypatch.setenv("TOOLRAIL_LOGIN_IS_PERSON", "false")
    approval_id = await desk.park()
    for words in (("approve",), ("deny",), ("edit", "--set", 'text="b"', "--yes")):
        ran = await desk(words[0], approval_id, *words[1:])

        assert ran.code == USAGE
        assert "--by: the login here is nobody's own." in ran.err
        assert "Say who decides: --by NAME." in ran.err
    assert await state_of(desk, approval_id) is ApprovalState.PENDING
    assert (await desk("approve", approval_id, "--by", "ana")).code == 0


async def test_each_of_several_ids_gets_its_line(desk: Desk) -> None:
    """One that fails keeps none of the others; the exit code tells of it."""
    ids = [await desk.park(f"c{n}") for n in range(2)]
    ran = await desk("deny", short(ids[0]), NO_ID, short(ids[1]), "--reason", "Not today.")

    assert ran.code == NOT_FOUND
    assert ran.out.splitlines() == [
        f"{short(approval_id)}  demo.ask  denied as lena; the model is told" for approval_id in ids
    ]
    assert ran.err.startswith(f"error: {NO_ID}  There is no approval")
    assert [await state_of(desk, i) for i in ids] == [ApprovalState.DENIED] * 2


async def test_the_model_reads_the_reason_of_a_refusal(desk: Desk) -> None:
    """Up to 500 characters; a longer one is not cut behind the person's back."""
    approval_id = await desk.park()
    long = await desk("deny", approval_id, "--reason", "x" * 501)
    still = await state_of(desk, approval_id)
    await desk("deny", approval_id, "--reason", "Not to [red]them[/red].")
    request = CallRequest(id="c1", name="demo.ask", arguments={"text": "a"})
    result = await desk.run.wait(await desk.run.dispatch(request), timeout_s=5)
    shown = await desk("show", short(approval_id))

    assert (long.code, still) == (USAGE, ApprovalState.PENDING)
    assert "--reason: has 501 characters; the limit is 500." in long.err
    assert error_text(result).endswith('as a JSON string: "Not to [red]them[/red]."')
    assert "│ Not to [red]them[/red]." in shown.out


async def test_a_repeated_decision_is_no_mistake(desk: Desk) -> None:
    """It says who was first and when; exit code 0."""
    yes, no = await desk.park("c1"), await desk.park("c2")
    await desk("approve", yes, "--by", "ana")
    await desk("deny", no, "--by", "ana")
    again = [await desk("approve", short(yes)), await desk("deny", short(no))]

    assert [ran.code for ran in again] == [0, 0]
    assert re.search(r"demo\.ask  already approved by ana, \d+ s ago$", again[0].out.strip())
    assert re.search(r"demo\.ask  already denied by ana, \d+ s ago$", again[1].out.strip())
    assert [ran.err for ran in again] == ["", ""]
    unsaid = await desk("deny", short(no), "--reason", "Not today.")
    assert "Your reason was not taken" in unsaid.err


async def test_a_conflict_says_what_stands(desk: Desk) -> None:
    """With an exit code that is not that of an unknown id."""
    approval_id = await desk.park()
    await desk("deny", approval_id, "--by", "ana")
    ran = await desk("approve", short(approval_id))
    unknown = await desk("approve", NO_ID)

    assert (ran.code, unknown.code) == (CONFLICT, NOT_FOUND)
    assert ran.err.startswith(
        f"error: {short(approval_id)}  demo.ask  This call was denied already by ana at 20"
    )


@pytest.mark.parametrize("words", [("approve",), ("deny",), ("edit", "--set", 'text="b"', "--yes")])
async def test_a_decision_after_the_end_by_the_clock_of_redis_is_refused(
    desk: Desk, words: tuple[str, ...]
) -> None:
    """No sweeper has run; whatever the clock of this machine says."""
    approval_id = await desk.park()
    await desk.let_expire(approval_id)
    ran = await desk(words[0], approval_id, *words[1:])

    assert ran.code == CONFLICT
    assert "expired before anybody decided" in ran.err


async def test_a_decision_about_a_run_that_has_ended_comes_to_nothing(desk: Desk) -> None:
    """Its questions ended with it."""
    approval_id = await desk.park()
    await desk.run.cancel()
    yes, no = await desk("approve", approval_id), await desk("deny", approval_id)

    assert (yes.code, no.code) == (CONFLICT, CONFLICT)
    assert "cancelled with its run" in yes.err


async def test_only_those_whom_the_policy_names_decide(ruled: Desk) -> None:
    """Asked before an editor opens, too; the question stands."""
    approval_id = await ruled.park()
    refused = [
        await ruled("approve", approval_id, "--by", "eve"),
        await ruled("deny", approval_id, "--by", "eve"),
        await ruled("edit", approval_id, "--by", "eve"),
        await ruled("approve", approval_id, "--by", "a\nb"),
    ]
    after = await state_of(ruled, approval_id)

    assert [ran.code for ran in refused] == [REFUSED] * 4
    assert all("eve may not decide" in ran.err for ran in refused[:3])
    assert all("The question stands as it was." in ran.err for ran in refused[:3])
    assert after is ApprovalState.PENDING

    await ruled.run.cancel()
    late = await ruled("approve", approval_id, "--by", "eve")
    assert "It is decided already." in late.err
    assert "stands as it was" not in late.err


async def test_a_call_that_can_no_longer_run_says_why(desk: Desk) -> None:
    """The tool has changed, or the budget is used up; approving is then no success."""
    changed, *rare = [
        await desk.park("c1"),
        await desk.park("c2", "demo.rare"),
        await desk.park("c3", "demo.rare"),
    ]
    first = await desk("approve", rare[0])
    over = await desk("approve", rare[1])
    await desk.cell.change_tool("demo.ask")
    superseded = await desk("approve", changed)

    assert (first.code, over.code, superseded.code) == (0, CONFLICT, CONFLICT)
    assert "demo.rare  cancelled: the call has ended and does not run." in over.err
    assert "The calls allowed for this tool in this run are used up." in over.err
    assert "demo.ask  superseded: the call has ended and does not run." in superseded.err


async def test_remembering_answers_the_rest_of_the_run(desk: Desk) -> None:
    """The next call of the tool is not asked about."""
    approval_id = await desk.park()
    ran = await desk("approve", approval_id, "--remember")
    request = CallRequest(id="c2", name="demo.ask", arguments={"text": "b"})
    next_one = await desk.run.dispatch(request)

    assert "approved as lena, for the rest of the run; the call is queued" in ran.out
    assert next_one.state == "queued"


async def test_what_a_strong_layer_asks_cannot_be_remembered(ruled: Desk) -> None:
    """The platform wants to be asked each time."""
    approval_id = await ruled.park(name="demo.once")
    ran = await ruled("approve", approval_id, "--remember", "--by", "ana")
    shown = await ruled("show", approval_id)

    assert (ran.code, "platform wants to be asked each time" in ran.err) == (REFUSED, True)
    assert "--remember" not in shown.out


@pytest.mark.parametrize("line", [("approve",), ("edit", "--set", 'text="a"', "--yes")])
async def test_an_effect_that_may_repeat_is_approved_by_who_says_so(
    desk: Desk, line: tuple[str, ...]
) -> None:
    """An equal call was lost while the question stood; the refusal names the word."""
    lost = await desk.park("c1", text="a")
    twin = await desk.park("c2", text="a" if line == ("approve",) else "b")
    await desk("approve", lost)
    await lose(desk.cell, *lost.split("."), code="tool.outcome_unknown")
    unsaid = await desk(line[0], twin, *line[1:])
    still = await state_of(desk, twin)
    said = await desk(line[0], twin, *line[1:], "--effect-may-repeat")

    assert (unsaid.code, still) == (REFUSED, ApprovalState.PENDING)
    assert "may have happened" in unsaid.err
    assert "--effect-may-repeat" in unsaid.err
    assert (said.code, "approved as" in said.out) == (0, True)


async def test_an_edit_shows_what_changes_and_runs_with_it(desk: Desk) -> None:
    """By --set; the others stay as the model wrote them. Once more it is no mistake."""
    approval_id = await desk.park(name="demo.mail", to="ana", note="n")
    edit = ("edit", short(approval_id), "--set", 'to="bob"', "--yes")
    ran, again = await desk(*edit), await desk(*edit)
    shown = await desk("show", approval_id, "--full")

    assert ran.code == 0
    assert '  │ -  "to": "ana"\n  │ +  "to": "bob"\n' in ran.out
    assert "approved as lena, with these arguments; the call is queued" in ran.out
    assert (again.code, "already approved by lena" in again.out) == (0, True)
    assert "for this call, with edited arguments" in shown.out
    assert "(edited by a person, whole, secrets redacted)" in shown.out
    assert '"note": "n"' in shown.out


async def test_an_edit_comes_from_a_file_or_from_standard_input(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All arguments, as the model would have sent them."""
    file = tmp_path / "args.json"
    file.write_text('{"text": "from a file"}', encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO('{"text": "from a pipe"}'))
    ids = [await desk.park("c1"), await desk.park("c2")]
    codes = [
        (await desk("edit", ids[0], "--file", str(file), "--yes")).code,
        (await desk("edit", ids[1], "--file", "-", "--yes")).code,
    ]
    async with serve(desk.cell):
        requests = [
            CallRequest(id=f"c{n}", name="demo.ask", arguments={"text": "a"}) for n in (1, 2)
        ]
        results = [await desk.run.wait(await desk.run.dispatch(r), timeout_s=10) for r in requests]

    assert codes == [0, 0]
    assert "from a file" in error_text(results[0])
    assert "from a pipe" in error_text(results[1])


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--set", "text=1", "--yes"), REFUSED, "do not fit the schema"),
        (("--set", 'other="x"', "--yes"), REFUSED, "Known keys: text."),
        (("--file", "-", "--yes"), REFUSED, "are not JSON"),
        (("--set", 'text="a"', "--yes"), NOT_FOUND, "The arguments are unchanged"),
        (("--set", 'text="b"'), USAGE, "Say --yes where nobody can be asked."),
        ((), USAGE, "There is no terminal to edit on"),
        (("--set", "text=b", "--yes"), USAGE, "is no JSON"),
        (("--file", "gone.json", "--yes"), USAGE, "--file: gone.json cannot be read"),
        (("--file", "-", "--set", "text=1"), USAGE, "Keep one of them."),
    ],
)
async def test_an_edit_that_cannot_be_leaves_the_question_as_it_was(
    desk: Desk,
    words: tuple[str, ...],
    code: int,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each says why; nothing is half done."""
    monkeypatch.setattr("sys.stdin", io.StringIO("{"))
    approval_id = await desk.park()
    ran = await desk("edit", approval_id, *words)

    assert (ran.code, why in ran.err) == (code, True), ran.err
    assert await state_of(desk, approval_id) is ApprovalState.PENDING


async def test_an_edit_of_a_changed_tool_shows_no_value(desk: Desk) -> None:
    """Nobody knows any more what is secret; the call then ends, as with any approval."""
    approval_id = await desk.park(name="demo.mail", to="ana", pin="4711")
    await desk.offer(mail(description="Another."))
    ran = await desk("edit", approval_id, "--set", 'pin="0815"', "--yes")

    assert (ran.code, 'changed: "pin"' in ran.out) == (CONFLICT, True)
    assert "4711" not in ran.out + ran.err
    assert "0815" not in ran.out + ran.err


async def test_without_an_id_and_a_terminal_the_list_is_named(desk: Desk) -> None:
    """Nothing is decided by guessing."""
    none = await desk("approve")
    await desk.park()
    one = await desk("approve")

    assert (none.code, one.code) == (NOT_FOUND, USAGE)
    assert one.err.startswith("error: One call waits for a person.")
    assert all("`toolrail approvals list`" in ran.err for ran in (none, one))


async def test_without_redis_nothing_is_decided_and_that_is_said(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody answers at the address; exit code 3."""
    monkeypatch.setenv("TOOLRAIL_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("TOOLRAIL_REDIS_TIMEOUT_S", "0.2")
    ran = await desk("approve", NO_ID)

    assert ran.code == NO_REDIS
    assert ran.err.startswith(
        "error: Nothing listens at the address of Redis: the connection was refused."
    )
    assert ran.err.endswith("  Nothing was decided.\n")


async def test_a_call_that_parks_says_so_at_once_and_keeps_its_output_for_the_result(
    desk: Desk,
) -> None:
    """On stderr: which question, how long it stands, and the command that shows it."""
    words = ["call", "demo.ask", "--args", '{"text": "a"}', "--run", desk.run.id, "--id", "c9"]
    calling = asyncio.create_task(asyncio.to_thread(run_command, words))
    said: list[str] = []

    async def has_said() -> bool:
        said.append(desk.capsys.readouterr().err)
        return "waits for a person" in "".join(said)

    await await_until(has_said, "the call to say that it waits", timeout_s=10)
    [approval_id] = await desk.cell.rail.approvals.ids()
    await desk.cell.rail.approvals.deny(approval_id, by="ana")
    code = await calling
    [line] = "".join(said).splitlines()

    assert re.fullmatch(
        rf"The call waits for a person, 9 m 5\d s left: `toolrail approvals show {approval_id}`"
        r", then approve, edit or deny\.",
        line,
    )
    assert code == REFUSED
    assert desk.capsys.readouterr().out.startswith("A person refused this call.")
