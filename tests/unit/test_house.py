"""The house style, as far as no linter holds it.

Is: sizes, headers, folders, the environment rule and the import contract. Is not: what ruff, mypy
and pyright check. Above: nothing. Below: `tests/sources.py`, import-linter.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.sources import (
    PRODUCT,
    ROOT,
    dotted,
    functions,
    parse,
    project_files,
    python_files,
    read,
)

FILE_LINES = 400
FUNCTION_LINES = 50
README_LINES = {"README.md": 140, "schemas/README.md": 120}
README_SCREEN = 70
HEADER_WORDS = ("Is:", "Is not:", "Above:", "Below:")
ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.putenv", "os.unsetenv"}
ENVIRONMENT_READERS = {"tooling/toolrail/environment.py"}
# folder, package, what its installation brings on top of the layer before; see pyproject.toml
LAYERS: tuple[tuple[str, str, set[str]], ...] = (
    ("schemas", "toolrail_schemas", {"pydantic", "pydantic_core"}),
    (
        "tooling",
        "toolrail",
        {
            "pydantic_settings",
            "redis",
            "hiredis",
            "kombu",
            "amqp",
            "jsonschema_rs",
            "orjson",
            "anyio",
            "prometheus_client",
        }
        | {"typer", "click", "rich"},
    ),
    (
        "workers",
        "toolrail_workers",
        {"celery", "billiard", "vine", "mcp", "mcp_types", "uvloop"},
    ),
)
CELERY_MODULES = {"app.py", "_celery.py", "consumer.py", "transport.py", "pool.py"}
# Spelled so that this file does not match itself.
MACHINE_PATH = re.compile("/(?:" + "work|farm|root" + ")/")
PACKAGE_HOST = re.compile("|".join(("pypi" r"\.org", "pythonhosted" r"\.org", "npmjs" r"\.")))
BINARY = {".png", ".ico", ".gz", ".zip", ".woff2"}


def source_files() -> Iterator[Path]:
    """Yield every file that is read as source."""
    yield from python_files(*PRODUCT, "tests", "compose")
    yield from (file for file in project_files() if file.suffix == ".lua")


def text_files() -> Iterator[Path]:
    """Yield every file with text, lock file included."""
    return (file for file in project_files() if file.suffix not in BINARY)


def test_every_source_file_is_read_in_one_sitting() -> None:
    """At most 400 lines; split by noun, not by half."""
    long = [f"{f}: {n}" for f in source_files() if (n := read(f).count("\n")) > FILE_LINES]

    assert not long, "\n".join(long)


def test_every_function_fits_on_a_screen() -> None:
    """At most 50 lines, signature and docstring included."""
    long = [
        f"{file}:{function.lineno} {function.name}: {lines}"
        for file in python_files(*PRODUCT, "tests", "compose")
        for function in functions(parse(file))
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES
    ]

    assert not long, "\n".join(long)


def test_every_module_says_what_it_is_and_is_not_and_its_neighbours() -> None:
    """The header is read before the code; tests only need a docstring."""
    bare = [
        str(file)
        for file in python_files(*PRODUCT)
        if not all(word in (ast.get_docstring(parse(file)) or "") for word in HEADER_WORDS)
    ]
    bare += [str(file) for file in python_files("tests") if not ast.get_docstring(parse(file))]

    assert not bare, "\n".join(bare)


def test_every_test_says_in_a_sentence_what_it_proves() -> None:
    """The name is the behaviour, the docstring its meaning."""
    silent = [
        f"{file}:{function.lineno} {function.name}"
        for file in python_files("tests")
        for function in functions(parse(file))
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]

    assert not silent, "\n".join(silent)


def test_every_lua_file_opens_with_its_signature_and_key_map() -> None:
    """A script is called from far away; its head is its contract."""
    bare: list[str] = []
    for file in project_files():
        if file.suffix != ".lua":
            continue
        head = "\n".join(_leading_comment(read(file)))
        if "ARGV" not in head or not re.search(r"^-- +keys?\b", head, re.IGNORECASE | re.MULTILINE):
            bare.append(str(file))

    assert not bare, "\n".join(bare)


def _leading_comment(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith(("--", "#!")):
            return
        yield line


def test_every_folder_has_a_readme_of_a_screen() -> None:
    """What lives here, what does not, where to start reading."""
    for folder in (".", *PRODUCT, "tests", "compose"):
        file = Path(folder) / "README.md"
        limit = README_LINES.get(file.as_posix(), README_SCREEN)

        assert 5 < read(file).count("\n") <= limit, file


def test_no_file_names_a_path_of_a_developers_machine() -> None:
    """What runs here must run elsewhere."""
    found = [str(file) for file in text_files() if MACHINE_PATH.search(read(file))]

    assert not found, "\n".join(found)


def test_no_file_names_a_package_host() -> None:
    """The operator's index decides; only the lock file has to say where a hash was seen."""
    found = [
        str(file)
        for file in text_files()
        if file.name != "uv.lock" and PACKAGE_HOST.search(read(file))
    ]

    assert not found, "\n".join(found)


def test_only_the_settings_read_the_environment() -> None:
    """Ruff bans it by name, in tests too; this also sees imports of the names."""
    readers: set[str] = set()
    for file in python_files(*PRODUCT, "compose"):
        for node in ast.walk(parse(file)):
            match node:
                case ast.ImportFrom(module="os", names=aliases):
                    names = {f"os.{alias.name}" for alias in aliases}
                case _:
                    names = {dotted(node)}
            if names & ENVIRONMENT:
                readers.add(file.as_posix())

    assert readers <= ENVIRONMENT_READERS


def test_only_the_settings_and_the_health_check_read_variables() -> None:
    """Everybody else takes values, so that a setting is checked once and means one thing."""
    users = {
        file.as_posix()
        for file in python_files(*PRODUCT)
        for node in ast.walk(parse(file))
        if isinstance(node, ast.ImportFrom) and node.module == "toolrail.environment"
    }

    assert users == {"tooling/toolrail/settings.py", "tooling/toolrail/cli/health.py"}


def test_every_package_imports_only_what_its_installation_brings() -> None:
    """An agent service has no worker extra: an import beyond the base would break it alone."""
    allowed: set[str] = set(sys.stdlib_module_names)
    foreign: list[str] = []
    for folder, package, libraries in LAYERS:
        allowed |= {package, *libraries}
        foreign += [
            f"{file}: {name}"
            for file in python_files(folder)
            for name in sorted(_imported(parse(file)) - allowed)
        ]

    assert not foreign, "\n".join(foreign)


def test_celery_is_imported_in_few_modules() -> None:
    """Its private hooks are pinned; everything else works on our own words."""
    users = {
        file.name
        for file in python_files(*PRODUCT)
        if _imported(parse(file)) & {"celery", "billiard"}
    }

    assert users <= CELERY_MODULES


def _imported(tree: ast.AST) -> set[str]:
    """Return the first names of all imported modules."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=str(module)):
                names.add(module)
            case _:
                pass
    return {name.split(".")[0] for name in names}


def test_tests_wait_on_conditions_not_on_time() -> None:
    """A sleep of a written number of seconds is a race; `tests/waiting.py` is the way.

    Zero gives way to other tasks, and a minute or more stands for "never" in a hanging tool.
    """
    sleeps = [
        f"{file}:{node.lineno}"
        for file in python_files("tests")
        for node in ast.walk(parse(file))
        if isinstance(node, ast.Call)
        and dotted(node.func).endswith(".sleep")
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, int | float)
        and 0 < node.args[0].value < 60
    ]

    assert not sleeps, "\n".join(sleeps)


def test_imports_go_one_way() -> None:
    """toolrail_workers -> toolrail -> toolrail_schemas -> pydantic, and Celery in one place."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
