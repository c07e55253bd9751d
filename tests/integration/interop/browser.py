"""Sidekiq's pages as a person sees them: the real Sidekiq Web, and a headless Chromium driven over WebDriver.

Of WebDriver a handful of calls is needed, so they are made here, by the protocol's own words.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).parent
ANSWER_S = 60.0

# Chromium keeps off the network but for the page, and needs no sandbox in a container, where it runs as root.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
_UNROLL = """
    document.body.style.backgroundImage = 'none';
    document.querySelector('.navbar-fixed-bottom').style.display = 'none';
    const page = document.querySelector('#page');
    page.style.paddingBottom = 0;
    return [outerWidth, page.scrollHeight + 20 + outerHeight - innerHeight];
"""
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name that the standard gives to a reference


def missing() -> str:
    """Names what this machine lacks, and the package that has it; empty when it lacks nothing."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return "no chromium and chromedriver on PATH (Debian: apt-get install chromium chromium-driver)"
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


class Browser:
    """One window. Elements are named by XPath; who waits for a page to change opens it again."""

    def __init__(self, base: str, width: int = 1200) -> None:
        self._base = base
        self._folder = tempfile.mkdtemp(prefix="pyworkers-chromium-")
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert self._driver.stdout is not None
        port = next(line.split()[-1].rstrip(".") for line in self._driver.stdout if "successfully on port" in line)
        self._http = http.client.HTTPConnection("127.0.0.1", int(port), timeout=ANSWER_S)
        self._session = ""
        flags = [*FLAGS, f"--window-size={width},2000", f"--user-data-dir={self._folder}"]
        options = {"binary": shutil.which("chromium"), "args": flags}
        try:
            told = self._ask("POST", "/session", capabilities={"alwaysMatch": {"goog:chromeOptions": options}})
        except BaseException:
            self.close()
            raise
        self._session = f"/session/{told['sessionId']}"

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        self._http.request(
            method, self._session + path, json.dumps(body) if method == "POST" else None,
            {"Content-Type": "application/json"},
        )  # fmt: skip
        answer = json.loads(self._http.getresponse().read())["value"]
        if isinstance(answer, dict) and "error" in answer:
            raise AssertionError(f"{answer['error']}: {answer['message']}")
        return answer

    def open(self, path: str) -> str:
        """The text that is to be seen."""
        self._ask("POST", "/url", url=self._base + path)
        return self.text

    def _find(self, xpath: str) -> list[str]:
        found = self._ask("POST", "/elements", using="xpath", value=xpath)
        return [element[_ELEMENT] for element in found]

    def texts(self, xpath: str) -> list[str]:
        """Returns the visible text of each element, on one line."""
        return [" ".join(self._ask("GET", f"/element/{element}/text").split()) for element in self._find(xpath)]

    @property
    def text(self) -> str:
        (text,) = self.texts("//body")
        return str(text)

    def click(self, xpath: str) -> None:
        """The only one of that description. When this returns, the page that it leads to is there."""
        found = self._find(xpath)
        assert len(found) == 1, f"{len(found)} of {xpath} in:\n{self.text}"
        self._ask("POST", f"/element/{found[0]}/click")

    def screenshot(self, file: Path) -> None:
        """The whole page, as high as it is. Without its footer, which lies over it, and the pattern of its background,
        which would be most of the file."""
        width, height = self._ask("POST", "/execute/sync", script=_UNROLL, args=[])
        self._ask("POST", "/window/rect", width=width, height=height)
        file.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def __enter__(self) -> Browser:  # noqa: PYI034
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        try:
            if self._session:
                self._ask("DELETE", "")
        finally:
            self._http.close()
            self._driver.terminate()
            self._driver.wait()
            assert self._driver.stdout is not None
            self._driver.stdout.close()
            shutil.rmtree(self._folder, ignore_errors=True)
