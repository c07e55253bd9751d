"""A headless Chromium, driven over WebDriver.

Of WebDriver a handful of calls is needed, so they are made here, by the protocol's own words; what it lacks is asked of
Chromium by its own protocol (CDP): themes, phones, no JavaScript.
"""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

AXE = Path(__file__).parent / "vendored" / "axe.min.js"
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
# By WebDriver's names.
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "ArrowDown": "\ue015", "ArrowUp": "\ue013",
        "Control": "\ue009", "Shift": "\ue008"}  # fmt: skip


def lacks_chromium() -> str:
    """Names what this machine lacks, and the package that has it; empty when it lacks nothing."""
    if shutil.which("chromium") and shutil.which("chromedriver"):
        return ""
    return "no chromium and chromedriver on PATH (Debian: apt-get install chromium chromium-driver)"


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
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            told = self._ask("POST", "/session", capabilities={"alwaysMatch": wanted})
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

    def shows(self, text: str) -> bool:
        """False also while one page makes room for another."""
        try:
            return text in self.text
        except AssertionError:
            return False

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

    # --- as Chromium's own protocol has it

    def chromium(self, command: str, **parameters: Any) -> Any:
        return self._ask("POST", "/goog/cdp/execute", cmd=command, params=parameters)

    def look(self, width: int = 1440, height: int = 900, dark: bool = False) -> None:
        """From now on the window is so large, a phone if it is narrow, and the system's theme is light or dark."""
        self.chromium(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.chromium("Emulation.setEmulatedMedia", features=[theme])

    def javascript(self, on: bool) -> None:
        self.chromium("Emulation.setScriptExecutionDisabled", value=not on)

    def run(self, script: str, *args: Any) -> Any:
        """`return` tells the value; a promise is waited for."""
        return self._ask("POST", "/execute/sync", script=script, args=list(args))

    @property
    def messages(self) -> list[str]:
        """What the console says since the last look, such as errors and breaches of the page's policy."""
        return [f"{one['level']}: {one['message']}" for one in self._ask("POST", "/se/log", type="browser")]

    @property
    def address(self) -> str:
        """Of the page, without scheme, host and port."""
        return str(self._ask("GET", "/url")).removeprefix(self._base)

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.run("return document.documentElement.scrollWidth - innerWidth"))

    def type(self, xpath: str, text: str) -> None:
        (field,) = self._find(xpath)
        self._ask("POST", f"/element/{field}/clear")
        self._ask("POST", f"/element/{field}/value", text=text)

    def press(self, *keys: str) -> None:
        """Presses these keys together, such as Control and k, and lets them go."""
        told = [KEYS.get(key, key) for key in keys]
        strokes = [{"type": "keyDown", "value": key} for key in told]
        strokes += [{"type": "keyUp", "value": key} for key in reversed(told)]
        self._ask("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": strokes}])

    def has(self, xpath: str) -> bool:
        return bool(self._find(xpath))

    def faults(self, impacts: Sequence[str] = ("serious", "critical")) -> list[str]:
        """What axe-core finds in the page that keeps people with a disability from using it."""
        self.run(f"if (!window.axe) {{ {AXE.read_text('utf-8')} }}")
        found = self.run("return axe.run(document, {resultTypes: ['violations']})")["violations"]
        return [
            f"{one['impact']}: {one['help']} ({one['id']}): {node['target']} {node['html'][:200]}"
            for one in found
            if one["impact"] in impacts
            for node in one["nodes"][:3]
        ]

    def picture(self, file: Path, whole: bool = True) -> None:
        """The whole page, as high as it is, or what the window shows of it."""
        told = self.chromium("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(told["data"]))

    def __enter__(self) -> Browser:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
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
