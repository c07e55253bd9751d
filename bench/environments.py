"""Puts the peers into environments of their own, in the cache. What cannot be had is left out, with the reason."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.places import CACHE, GO_SOURCES, HERE

INSTALL_S = 600
STAMP = ".installed"


class Unavailable(Exception):
    """The reason stands in the report."""


def python_environment(name: str, requirements: Sequence[str]) -> Path:
    """The folder of its programs."""
    folder = CACHE / "python" / name
    wanted = " ".join([sys.version.split()[0], *requirements])
    stamp = folder / STAMP
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        print(f"bench: installing {name}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        # Its pip is ours: Debian packs ensurepip separately.
        _run("venv", [sys.executable, "-m", "venv", "--without-pip", str(folder)])
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin/python")]
        _run("pip", [*pip, "install", "--quiet", *requirements])
        stamp.write_text(wanted, "utf-8")
    return folder / "bin"


def python_version(programs: Path, distribution: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    return _run("python", [str(programs / "python"), "-c", code])


def find_go() -> None:
    if shutil.which("go") is None:
        raise Unavailable("no go on PATH (Debian: apt-get install golang-go)")


@functools.cache
def go_programs(sources: Path = GO_SOURCES) -> Path:
    """The folder of what was built from these sources."""
    find_go()
    folder = CACHE / "-".join(sources.relative_to(HERE).parts)
    if not folder.exists():
        print("bench: building the Go programs", file=sys.stderr)
        folder.mkdir(parents=True)
    _run("go build", ["go", "build", "-o", f"{folder}/", "./..."], sources)
    return folder


def go_version(module: str, sources: Path = GO_SOURCES) -> str:
    required = re.search(rf"^\s*{re.escape(module)} (\S+)$", (sources / "go.mod").read_text("utf-8"), re.MULTILINE)
    assert required is not None
    version = required[1]
    return version[-12:] if "-" in version else version.removeprefix("v")


def sidekiq_version() -> str:
    for program in ("ruby", "sidekiq"):
        if shutil.which(program) is None:
            raise Unavailable(f"no {program} on PATH (Debian: apt-get install ruby-sidekiq)")
    return _run("sidekiq", ["ruby", "-rsidekiq", "-e", "print Sidekiq::VERSION"])


def _run(what: str, command: Sequence[str], folder: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{what}: {type(error).__name__}") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise Unavailable(f"{what}: {lines[-1][:120]}")
    return done.stdout.strip()
