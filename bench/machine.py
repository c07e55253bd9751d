"""On what a run measured."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import goworkers_py
from bench.places import ROOT


def machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def commit() -> str:
    """Of our code, with a plus where it was changed since; empty where there is no git."""
    try:
        changed = _git("status", "--porcelain", "--", goworkers_py.__name__)
        return _git("log", "-1", "--format=%h") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
