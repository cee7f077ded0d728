"""A tool that mails the outside, for approvals that are worth a question.

Is: what the recording and its test call; no mail leaves. Is not: a test.
Above: `tests/recording.py`. Below: `toolrail.tools`.
"""

from toolrail.tools import tool


@tool("outbox.send", title="Send a mail", destructive=True, open_world=True)
async def send(to: str, subject: str, body: str, api_key: str = "") -> str:
    """Send one mail to somebody outside; it cannot be called back.

    Args:
        to: Whom.
        subject: Of the mail.
        body: Of the mail.
        api_key: Of the account that sends.
    """
    return f"sent to {to}: {subject} ({len(body)} characters, {'with' if api_key else 'no'} key)"
