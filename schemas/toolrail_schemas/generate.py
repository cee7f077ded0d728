"""Write the wire models as JSON Schema files, for other languages.

Is: `python -m toolrail_schemas.generate [folder]`, the only I/O of this package. Is not: part of
what is imported at run time.
Above: developers, the test that keeps the files in step. Below: every public model.
"""

import json
import re
import sys
from pathlib import Path

from pydantic import TypeAdapter

from toolrail_schemas.approval import ApprovalRecord
from toolrail_schemas.call import ToolCall
from toolrail_schemas.doorbell import Doorbell
from toolrail_schemas.events import CALL_PAYLOADS
from toolrail_schemas.extension import ExtensionMessage
from toolrail_schemas.journal import JournalEvent
from toolrail_schemas.policy import PolicyDecision
from toolrail_schemas.result import ToolResult
from toolrail_schemas.run import RunSpec
from toolrail_schemas.tool import ToolSpec

COMMAND = "python -m toolrail_schemas.generate"
DRAFT = "https://json-schema.org/draft/2020-12/schema"

_MODELS: dict[str, TypeAdapter[object]] = {
    "ToolSpec": TypeAdapter(ToolSpec),
    "ToolCall": TypeAdapter(ToolCall),
    "ToolResult": TypeAdapter(ToolResult),
    "JournalEvent": TypeAdapter(JournalEvent),
    "PolicyDecision": TypeAdapter(PolicyDecision),
    "ApprovalRecord": TypeAdapter(ApprovalRecord),
    "RunSpec": TypeAdapter(RunSpec),
    "Doorbell": TypeAdapter(Doorbell),
    "ExtensionMessage": TypeAdapter(ExtensionMessage),
    **{model.__name__: TypeAdapter(model) for model in CALL_PAYLOADS.values()},
}


def json_schemas() -> dict[str, str]:
    """Return file name -> content of every public wire model, the same bytes each time."""
    return {f"{_snake(name)}.json": _render(name, model) for name, model in _MODELS.items()}


def write_json_schemas(folder: Path) -> list[Path]:
    """Bring `folder` in step with the models: write every file, remove those of no model."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = json_schemas()
    for stale in folder.glob("*.json"):
        if stale.name not in wanted:
            stale.unlink()
    written: list[Path] = []
    for name, content in wanted.items():
        path = folder / name
        path.write_text(content, encoding="utf-8", newline="\n")
        written.append(path)
    return written


def _render(name: str, model: TypeAdapter[object]) -> str:
    schema = model.json_schema(mode="validation")
    whole = {**schema, "$schema": DRAFT, "$id": f"urn:toolrail:{_snake(name)}", "title": name}
    return json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def main(arguments: list[str]) -> None:
    """Write into the folder named by the first argument, `schemas/json` by default."""
    default = Path(__file__).resolve().parents[1] / "json"
    folder = Path(arguments[0]) if arguments else default
    written = write_json_schemas(folder)
    sys.stdout.write(f"wrote {len(written)} JSON Schema files\n")


if __name__ == "__main__":
    main(sys.argv[1:])
