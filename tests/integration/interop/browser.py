"""Sidekiq's pages as a person sees them: the real Sidekiq Web, in a headless Chromium."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from chromium import Browser as Browser
from chromium import lacks_chromium

HERE = Path(__file__).parent


def missing() -> str:
    """Names what this machine lacks, and the package that has it; empty when it lacks nothing."""
    if lacking := lacks_chromium():
        return lacking
    if subprocess.run(["ruby", "-rwebrick", "-rsidekiq/web", "-e", "1"], capture_output=True).returncode:
        return "ruby cannot serve Sidekiq Web (Debian: apt-get install ruby-sidekiq ruby-webrick)"
    return ""


class SidekiqWeb:
    """Ends with its `with`."""

    def __init__(self, redis_url: str) -> None:
        self._process = subprocess.Popen(
            ["ruby", HERE / "ruby" / "web.rb", redis_url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, "RACK_ENV": "production"},
            text=True,
        )
        assert self._process.stdout is not None
        with self._process.stdout as said:
            self.url = f"http://127.0.0.1:{json.loads(said.readline())['port']}"

    def __enter__(self) -> SidekiqWeb:  # noqa: PYI034  # typing.Self is newer than the oldest Python
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
