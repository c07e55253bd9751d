"""Ruby programs as forks of one process that has loaded Sidekiq, see ruby/forks.rb. It lives as long as pytest does."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import forked_starts

FORKS = Path(__file__).parent / "ruby" / "forks.rb"

_one_at_a_time = threading.Lock()
_forking: list[subprocess.Popen[bytes]] = []  # none before the first program


def run(command: Sequence[str | Path], timeout_s: float) -> subprocess.CompletedProcess[str] | None:
    """Runs `ruby [-I LIBRARY]... PROGRAM [WORD]...` to its end. None if this is another command, or if a thread has a
    program run just now, beside which another one is to run: then the caller starts it."""
    words = list(map(str, command))
    libraries = []
    if words.pop(0) != "ruby":
        return None
    while words[0] == "-I":
        libraries.append(words[1])
        del words[:2]
    if words[0].startswith("-") or not _one_at_a_time.acquire(blocking=False):
        return None
    try:
        return _run(words, libraries, timeout_s)
    finally:
        _one_at_a_time.release()


def _run(words: Sequence[str], libraries: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    process = _process()
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as out, tempfile.NamedTemporaryFile("r") as err:
        asked = {
            "program": words[0], "words": words[1:], "libraries": libraries, "folder": str(Path.cwd()),
            "environment": dict(os.environ), "out": out.name, "err": err.name,
        }  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], timeout_s)
        code = process.stdout.readline() if ready else b""
        if not code:
            _end(process)
            raise AssertionError(f"{words} did not end in {timeout_s} s: {out.read()}{err.read()}")
        return subprocess.CompletedProcess(words, int(code), out.read(), err.read())


def _process() -> subprocess.Popen[bytes]:
    if not _forking:
        process = subprocess.Popen(
            ["ruby", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        _forking.append(process)
        forked_starts.forking.append(process.pid)  # no test's child
    return _forking[0]


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process and what it runs. The next program has another process."""
    os.killpg(process.pid, 9)
    process.communicate()
    _forking.clear()
