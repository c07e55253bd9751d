"""Plays each tutorial of docs/ as a reader does: writes its files, types its commands, and sees what it shows.

A page is played from top to bottom:

- a block whose first line names a file, such as `# shop.py`, is written into it;
- of a `console` block, each line that begins with `$ ` is typed, and the lines below it are what it prints;
- a `text` block is what the worker prints, which runs in the first terminal.

Lines that are shown must be printed in this order, others may stand between them. Spaces, times, and names that each
run makes anew do not count.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pages import ROOT, blocks_of, needs, ruby_has_sidekiq, terminal
from servers import RedisServer, do_without, free_port
from waiting import eventually

DOCS = ROOT / "docs"
STOP_S = 30
# They make an environment and need an index. `make dist` checks what they install.
INSTALLS = re.compile(r"python3 -m venv |pip install |bundle add |go (mod|get) ")
LOOKS = re.compile(r"pyworkers (stats|[a-z]+ list)|.*sidekiq/api")
GOES_ON = re.compile(r"pyworkers run |bundle exec sidekiq")
ANEW = [
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\b[0-9a-f]{24}\b", "JID"),
    (r"\b[\w.-]+:\d+:[0-9a-f]{9,}", "IDENTITY"),
    (r"(pid|elapsed)=[\d.]+", r"\1="),
    (r"worker:(\w+):\d+", r"worker:\1"),
    (r"token=[\w-]+", "token="),
    (r"\d[\d.]* (s|MB|KB)\b", r"N \1"),
    (r"\d+\.\d+s\b", "Ns"),
    (r"File \"\S+/", 'File "'),
    (r"pyworkers \d+\.\d+\.\d+", "pyworkers VERSION"),
]


@pytest.mark.timeout(180)
def test_the_tutorial_from_python_plays(server_program: str, tmp_path: Path) -> None:
    with _reader(tmp_path, {"8080": str(free_port())}) as reader:
        reader.play(DOCS / "start-python.md")


@pytest.mark.interop
@pytest.mark.timeout(180)
def test_the_tutorial_from_rails_plays(own_redis: RedisServer, tmp_path: Path) -> None:
    if not ruby_has_sidekiq():
        do_without("Ruby has no sidekiq")
    rails = tmp_path / "bin/rails"
    rails.parent.mkdir()
    rails.symlink_to(Path(__file__).with_name("rails_without_rails.rb"))
    with _reader(tmp_path, {"localhost:6379": f"127.0.0.1:{own_redis.port}"}) as reader:
        reader.play(DOCS / "start-rails.md")


@pytest.mark.interop
@pytest.mark.timeout(300)  # it compiles
def test_the_tutorial_from_go_plays(own_redis: RedisServer, tmp_path: Path) -> None:
    needs("go")
    for name in ("go.mod", "go.sum"):
        text = (ROOT / "examples/go" / name).read_text("utf-8")
        (tmp_path / name).write_text(text.replace("module goworkers.example/producers", "module shop"))
    with _reader(tmp_path, {"localhost:6379": f"127.0.0.1:{own_redis.port}"}) as reader:
        reader.play(DOCS / "start-go.md")


@contextmanager
def _reader(folder: Path, instead: Mapping[str, str]) -> Iterator[Reader]:
    with ExitStack() as programs:
        yield Reader(folder, instead, programs)


class Reader:
    """Sits before several terminals in one folder. The first one shows the worker."""

    def __init__(self, folder: Path, instead: Mapping[str, str], programs: ExitStack) -> None:
        """`instead` replaces addresses of the page by those of this test."""
        self._folder = folder
        self._instead = instead
        self._terminal = terminal()
        self._programs = programs
        self._log = folder / "worker.log"

    def play(self, page: Path) -> None:
        addresses = "|".join(map(re.escape, self._instead))
        for block in blocks_of(page):
            text = re.sub(addresses, lambda found: self._instead[found[0]], block.text)
            if block.file:
                file = self._folder / block.file
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
            elif block.language == "console":
                for typed in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                    self._type(*typed.split("\n", 1))
            elif block.language == "text":
                self._see(text)

    def _type(self, line: str, shown: str) -> None:
        if line == ". venv/bin/activate":
            self._terminal = terminal()  # a new one
        elif line.startswith("export "):
            self._terminal = self._terminal | dict(word.split("=", 1) for word in shlex.split(line)[1:])
        elif GOES_ON.match(line):
            self._run(line)
            self._see(shown)
        elif not INSTALLS.match(line):
            if LOOKS.match(line):  # the worker may not have recorded yet what it has logged
                assert eventually(lambda: _shows(self._output(line), shown)), f"{line}: {self._output(line)}"
            else:
                printed = self._output(line)
                assert _shows(printed, shown), f"{line}: {printed}"

    def _output(self, line: str) -> str:
        done = subprocess.run(shlex.split(line), cwd=self._folder, env=self._terminal, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    def _run(self, line: str) -> None:
        """In the first terminal. A worker that runs there is stopped by Ctrl-C before."""
        self._programs.close()
        self._log.touch(0o600)  # pages write their token into no file that everybody may read
        with self._log.open("w") as log:
            worker = subprocess.Popen(
                shlex.split(line), cwd=self._folder, env=self._terminal, stdout=log, stderr=subprocess.STDOUT
            )
        self._programs.callback(_stop, worker)
        self._see("; stop it with TERM or Ctrl-C")

    def _see(self, shown: str) -> None:
        assert eventually(lambda: _shows(self._log.read_text("utf-8"), shown)), self._log.read_text("utf-8")


def _stop(worker: subprocess.Popen[bytes]) -> None:
    worker.send_signal(signal.SIGINT)  # Ctrl-C
    try:
        assert worker.wait(STOP_S) == 0
    finally:
        worker.kill()
        worker.wait()


def _shows(printed: str, shown: str) -> bool:
    """Are the lines that are shown among those that were printed, in their order?"""
    lines = iter(_plain(printed))
    return all(any(line in one for one in lines) for line in _plain(shown))


def _plain(text: str) -> list[str]:
    for pattern, name in ANEW:
        text = re.sub(pattern, name, text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]
