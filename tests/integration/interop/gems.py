"""Ruby programs with the real gems sidekiq-batch and sidekiq-unique-jobs, see ruby/echoes.rb."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import archives
import pytest
from programs import RUBY, SIDEKIQ_BEGINS, Background, call, do_without, sidekiq_version, third_party

ARCHIVES = (
    "sidekiq-batch-0.1.9.tar.gz",
    "sidekiq-unique-jobs-7.1.33.tar.gz",
    "brpoplpush-redis_script-0.1.3.tar.gz",
)
ECHOES = "python_echoes"


class Gems:
    def __init__(self, redis_url: str, folder: Path) -> None:
        self._redis_url, self._folder, self._libraries = redis_url, folder, list[str]()
        if sidekiq_version() >= (7,):
            pytest.skip("sidekiq-unique-jobs 7.1 is for Sidekiq before 7: it needs the gem redis")
        for archive in map(third_party, ARCHIVES):
            archives.unpack(archive, folder)
            self._libraries.append(str(folder / archive.name.removesuffix(".tar.gz") / "lib"))
        tried = subprocess.run(["ruby", "-rconcurrent", "-rthor", "-e", "1"], capture_output=True)
        if tried.returncode != 0:
            do_without("ruby lacks what sidekiq-unique-jobs needs (Debian: apt-get install ruby-concurrent ruby-thor)")

    def __call__(self, *words: str, program: str = "echoes.rb") -> dict[str, Any]:
        paths = [word for library in self._libraries for word in ("-I", library)]
        [told] = call("ruby", *paths, RUBY / program, self._redis_url, *words)
        return told

    def push(self, job_class: str, argument: str) -> str | None:
        """The jid; None where another job holds the lock."""
        jid: str | None = self("unique", job_class, argument)["jid"]
        return jid

    def digests(self) -> list[str]:
        """The locks."""
        found: list[str] = self("digests")["digests"]
        return found

    def sidekiq(self, *queues: str, program: str = "echoes.rb") -> Background:
        command: list[str | Path] = ["sidekiq", "-r", RUBY / program, "-c", "1", "-t", "2"]
        for queue in queues or (ECHOES, "default"):
            command += ["-q", queue]
        paths = os.pathsep.join(self._libraries)
        log = self._folder / "sidekiq.log"
        return Background(log, command, SIDEKIQ_BEGINS, REDIS_URL=self._redis_url, RUBYLIB=paths)
