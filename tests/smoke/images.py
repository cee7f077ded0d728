"""Make the images of the smoke test on this machine, for there is no registry.

Is: a base from Debian's packages, our own Dockerfile on it, and stand-ins for the images of
others. Is not: the official images: same programs, other builds. Above: `__main__.py`. Below:
debootstrap, `podman build`.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.smoke.engine import Engine, run
from tests.sources import ROOT

MIRROR = "http://deb.debian.org/debian"
SUITE = "bookworm"
BASE = "localhost/smoke/base:1"
OURS = "localhost/smoke/toolrail:1"
STAND_INS = ("redis", "prometheus", "alertmanager")
CERTIFICATES = Path("/etc/ssl/certs")
INDEX_OPTIONS = ("index-url", "trusted-host", "proxy")


def stand_in(name: str) -> str:
    """Return the image that stands for another's."""
    return f"localhost/smoke/{name}:1"


def build_base(engine: Engine) -> None:
    """A Debian with Python stands where `python:3.13-slim` is in production."""
    root = engine.folder / "base"
    include = "--include=python3,python3-venv,ca-certificates"
    run("debootstrap", "--variant=minbase", include, SUITE, root, MIRROR)
    archive = engine.folder / "base.tar"
    run("tar", "--directory", root, "--create", "--file", archive, ".")
    engine.podman("import", "--quiet", archive, BASE)
    archive.unlink()
    shutil.rmtree(root)


def build_ours(engine: Engine) -> None:
    """Our Dockerfile, unchanged; only the package index is the one of this machine."""
    mounts = list(_index(engine))
    _build(engine, "--file", ROOT / "compose" / "Dockerfile", *mounts, "--tag", OURS, ROOT)


def build_stand_ins(engine: Engine) -> None:
    """Redis, Prometheus and Alertmanager from Debian's packages."""
    for name in STAND_INS:
        context = Path(__file__).with_name("standin")
        _build(engine, "--target", name, "--tag", stand_in(name), context)


def _build(engine: Engine, *words: str | Path) -> None:
    common = ("--network=host", "--isolation=chroot", "--quiet")
    base = ("--build-arg", f"BASE_IMAGE={BASE}")
    engine.podman("build", *common, *base, *words, network=False)


def _index(engine: Engine) -> Iterator[str]:
    """Yield the options that let the build use this machine's package index."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    lines = ["[global]"]
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        option = key.rpartition(".")[2]
        if option in INDEX_OPTIONS:
            lines.append(f"{option} = {value.strip(chr(39))}")
    config = engine.folder / "pip.conf"
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    yield f"--volume={config}:/etc/pip.conf:ro"
    if CERTIFICATES.is_dir():
        yield f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"
