"""Import every module of the installed wheel; run by CI where no source is in sight.

Is: a script that uses only the standard library and what the wheel installs. Is not: a pytest test,
for pytest would need the source folder. Above: `.ci/run`. Below: the three packages.

Usage: python -I wheel.py EXTRAS; without extras, the worker package may not be importable, but it
must say so in one sentence.
"""

import importlib
import importlib.resources
import pkgutil
import sys

WORKERS = "toolrail_workers"
NEED_EXTRAS = ("toolrail.gateway", "toolrail.testing")


def import_all(package: str, *, skip: tuple[str, ...] = ()) -> int:
    """Import a package and everything below it; return how many modules there are."""
    root = importlib.import_module(package)
    count = 1
    for found in pkgutil.walk_packages(root.__path__, package + "."):
        if found.name.startswith(skip) or found.name.endswith("__main__"):
            continue
        importlib.import_module(found.name)
        count += 1
    return count


def check_base() -> int:
    """Import what an agent service uses; see the workers refuse in a sentence."""
    count = import_all("toolrail_schemas") + import_all("toolrail", skip=NEED_EXTRAS)
    refusal = ""
    try:
        importlib.import_module(WORKERS)
    except ImportError as error:
        refusal = str(error)
    assert "toolrail[worker]" in refusal, refusal or f"{WORKERS} imports without its extra"
    return count


def main() -> None:
    """Check the installation this interpreter sees."""
    if sys.argv[1]:
        count = sum(import_all(name) for name in ("toolrail_schemas", "toolrail", WORKERS))
    else:
        count = check_base()
    scripts = importlib.resources.files("toolrail.ledger").joinpath("lua")
    lua = [entry.name for entry in scripts.iterdir() if entry.name.endswith(".lua")]
    assert lua, "the wheel has no Lua scripts"
    assert "site-packages" in str(scripts), scripts
    sys.stdout.write(f"{count} modules and {len(lua)} scripts with extras '{sys.argv[1]}'\n")


if __name__ == "__main__":
    main()
