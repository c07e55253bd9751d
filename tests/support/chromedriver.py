"""A chromedriver with one window of a headless Chromium. It is spoken to in the words of WebDriver, and through it
Chromium in those of its own protocol (CDP)."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import tempfile
from typing import Any

ANSWER_S = 60.0

# Chromium keeps off the network but for the page, and needs no sandbox in a container, where it runs as root.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--js-flags=--no-opt,--no-maglev",  # no page lives long enough for code that was compiled with care to pay off
)  # fmt: skip
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name that the standard gives to a reference


def lacks_chromium() -> str:
    """Names what this machine lacks, and the package that has it; empty when it lacks nothing."""
    if shutil.which("chromium") and shutil.which("chromedriver"):
        return ""
    return "no chromium and chromedriver on PATH (Debian: apt-get install chromium chromium-driver)"


class ChromeDriver:
    """Starts both programs. They end with `close`."""

    def __init__(self, width: int) -> None:
        self._folder = tempfile.mkdtemp(prefix="pyworkers-chromium-")
        self._process = subprocess.Popen(
            ["chromedriver", "--port=0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        port = next(line.split()[-1].rstrip(".") for line in self._process.stdout if "successfully on port" in line)
        self._http = http.client.HTTPConnection("127.0.0.1", int(port), timeout=ANSWER_S)
        self._session = ""
        flags = [*FLAGS, f"--window-size={width},2000", f"--user-data-dir={self._folder}"]
        options = {"binary": shutil.which("chromium"), "args": flags}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            told = self.ask("POST", "/session", capabilities={"alwaysMatch": wanted})
        except BaseException:
            self.close()
            raise
        self._session = f"/session/{told['sessionId']}"

    def ask(self, method: str, path: str, **body: Any) -> Any:
        """A call of the session. An answer that is an error is raised as AssertionError."""
        self._http.request(
            method, self._session + path, json.dumps(body) if method == "POST" else None,
            {"Content-Type": "application/json"},
        )  # fmt: skip
        answer = json.loads(self._http.getresponse().read())["value"]
        if isinstance(answer, dict) and "error" in answer:
            raise AssertionError(f"{answer['error']}: {answer['message']}")
        return answer

    def elements(self, using: str, value: str) -> list[str]:
        return [element[_ELEMENT] for element in self.ask("POST", "/elements", using=using, value=value)]

    def chromium(self, command: str, **parameters: Any) -> Any:
        """A command of Chromium's own protocol."""
        return self.ask("POST", "/goog/cdp/execute", cmd=command, params=parameters)

    def close(self) -> None:
        try:
            if self._session:
                self.ask("DELETE", "")
        finally:
            self._http.close()
            self._process.terminate()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            shutil.rmtree(self._folder, ignore_errors=True)
