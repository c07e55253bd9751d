"""`make run`: the demo prints where its pages are, and each of them shows something alive."""

from __future__ import annotations

import html
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from daemon import environment
from waiting import eventually

ROOT = Path(__file__).parents[2]
ENDS_S = 30.0
OPENS_S = 45.0  # on a busy machine; a demo whose port was taken meanwhile starts once more

pytestmark = pytest.mark.server


@pytest.fixture
def place(tmp_path: Path, server_program: str) -> Path:
    """The demo keeps its data beside its code: a test must not touch that of a developer."""
    place = tmp_path / "a clone"
    shutil.copytree(ROOT / "examples/demo", place / "examples/demo", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "conf").mkdir()
    with closing(socket.create_server(("127.0.0.1", 0))) as free:  # 8080 may be taken just now, by another test
        give_port(place, free.getsockname()[1])
    return place


def give_port(place: Path, port: int) -> None:
    text = (ROOT / "conf/demo.ini").read_text("utf-8")
    assert "port = 8080\n" in text
    (place / "conf/demo.ini").write_text(text.replace("port = 8080\n", f"port = {port}\n"), "utf-8")


class Demo:
    def __init__(self, process: subprocess.Popen[bytes], printed: Path) -> None:
        self.process = process
        self._printed = printed

    @property
    def printed(self) -> str:
        return self._printed.read_text("utf-8")

    def opened(self) -> str:
        """Returns the address of the pages."""
        found = eventually(lambda: re.search(r"http://\S+", self.printed) or self.process.poll() is not None, OPENS_S)
        assert isinstance(found, re.Match), self.printed
        return found[0]

    def page(self, path: str) -> str:
        """Empty while the pages are busy."""
        address = urlsplit(self.opened())
        headers = {"Authorization": f"Bearer {address.query.removeprefix('token=')}"}
        with (
            suppress(URLError),
            urlopen(Request(f"http://{address.netloc}{path}", headers=headers), timeout=20) as page,
        ):
            return str(page.read().decode())
        return ""

    def links(self, path: str, label: str) -> set[str]:
        nav = re.search(rf'<nav [^>]*aria-label="{label}".*?</nav>', self.page(path), re.DOTALL)
        assert nav, path
        return {html.unescape(link) for link in re.findall(r'href="([^"]+)"', nav[0])}

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(ENDS_S)


@contextmanager
def demo(place: Path, name: str = "printed") -> Iterator[Demo]:
    printed = place / name
    with printed.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "examples.demo"],
            cwd=place,
            # Nobody listens there: the demo must not push its jobs to a server that is somebody's own.
            env=environment(PYWORKERS_BROKER="redis://127.0.0.1:1"),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    with process:
        try:
            yield Demo(process, printed)
        finally:
            process.kill()


def is_alive(page: str) -> bool:
    return re.search(r"<tbody>\s*<tr", page) is not None and 'class="nothing"' not in page


def test_each_page_of_the_demo_shows_something_alive(place: Path) -> None:
    with demo(place) as shop:
        # Those of grouped jobs and of the API have no table: they show the way to others.
        empty = shop.links("/", "Pages") | shop.links("/jobs", "States")
        empty -= {"/api-docs", "/jobs?state=grouped"}
        assert len(empty) > 20

        def look() -> bool:
            empty.difference_update([link for link in sorted(empty) if is_alive(shop.page(link))])
            return not empty

        assert eventually(look, 45, every_s=0.5), f"nothing to see at {sorted(empty)}"
        assert eventually(lambda: re.search('data-label="Version">2</td>', shop.page("/configuration?name=shop")))


def test_the_demo_goes_on_with_its_data_after_a_kill_and_ends_by_ctrl_c(place: Path) -> None:
    with demo(place) as shop:
        assert eventually(lambda: "prices of" in shop.page("/batches"))
        batch = re.findall(r"prices of [\d:]+", shop.page("/batches"))[0]
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        give_port(place, port)
        with demo(place) as shop:
            assert batch in shop.page("/batches")
            assert f"Port {port} is in use" in shop.printed
            assert shop.end() == 0
            assert "Stopping: " in shop.printed
            assert "Stopped. " in shop.printed


@pytest.mark.timeout(180)
def test_two_demos_that_start_at_once_both_open(place: Path) -> None:
    with demo(place, "printed") as one, demo(place, "printed too") as other:
        assert one.opened() != other.opened()
        assert [one.end(), other.end()] == [0, 0]
