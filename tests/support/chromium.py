"""A headless Chromium as a person has it before him: pages, fields, keys, themes, a phone, no JavaScript.

An element is named by an XPath, which begins with `/` or `(`, or else by a selector of CSS."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from chromedriver import ChromeDriver
from chromedriver import lacks_chromium as lacks_chromium
from waiting import eventually

T = TypeVar("T")
AXE = Path(__file__).parent / "vendored" / "axe.min.js"
WIDE, PHONE = 1440, 375

# By WebDriver's names.
KEYS = {
    "Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Backspace": "\ue003", "Control": "\ue009",
    "Shift": "\ue008", "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015",
}  # fmt: skip
# Each fault in a line. More than a few elements with the same fault teach nothing new.
_FAULTS = """axe.run(document, {resultTypes: ['violations'], preload: false}).then(told =>
        told.violations.flatMap(one => one.nodes.slice(0, 3).map(node => [one.impact,
            `${one.impact}: ${one.help} (${one.id}): ${node.target} ${node.html.slice(0, 200)}`])))"""


class Browser:
    """One window. A test that waits for a page to change asks with `until`, or opens it again."""

    def __init__(self, base: str = "", width: int = 1200) -> None:
        self._base = base
        self._driver = ChromeDriver(width)
        self._ask = self._driver.ask
        self.chromium = self._driver.chromium
        self._width = width

    def visit(self, base: str) -> Browser:
        """For the next test: the pages at another address, in a browser that knows nothing of the former test."""
        self._base = base
        self.javascript(on=True)
        self._ask("POST", "/url", url="about:blank")
        self.chromium("Network.enable")
        self.chromium("Network.clearBrowserCookies")
        self.headers({})
        self.look()
        self._ask("POST", "/se/log", type="browser")  # its messages are told once
        return self

    # --- pages

    def open(self, path: str) -> str:
        """The text that is to be seen."""
        self._ask("POST", "/url", url=self._base + path)
        return self.text

    def back(self) -> None:
        self._ask("POST", "/back")

    @property
    def address(self) -> str:
        """Of the page, without scheme, host and port."""
        return str(self._ask("GET", "/url")).removeprefix(self._base)

    @property
    def text(self) -> str:
        """On one line. Empty between two pages, when there is no body."""
        # WebDriver's own way to a text is a script that looks at each element: too slow for a page of jobs.
        return " ".join(str(self.run("return document.body?.innerText ?? ''")).split())

    def shows(self, text: str) -> bool:
        """False also while one page makes room for another."""
        try:
            return text in self.text
        except AssertionError:
            return False

    def until(self, condition: Callable[[], T], within_s: float = 20.0) -> T:
        """As `eventually`, but it asks less often: each question is work for the whole browser."""
        return eventually(condition, within_s, every_s=0.1)

    def texts(self, place: str) -> list[str]:
        """Returns the visible text of each element, on one line."""
        return [" ".join(self._ask("GET", f"/element/{element}/text").split()) for element in self._find(place)]

    def has(self, place: str) -> bool:
        return bool(self._find(place))

    def _find(self, place: str) -> list[str]:
        return self._driver.elements("xpath" if place.startswith(("/", "(")) else "css selector", place)

    def _only(self, place: str) -> str:
        """Waits for it: a page may be on its way."""
        found: list[str] = eventually(lambda: one if len(one := self._find(place)) == 1 else [], 10)
        assert found, f"{len(self._find(place))} of {place} in:\n{self.text}"
        return found[0]

    def run(self, script: str, *args: Any) -> Any:
        """`return` tells the value; a promise is waited for."""
        return self._ask("POST", "/execute/sync", script=script, args=list(args))

    # --- mouse and keyboard

    def click(self, place: str) -> None:
        """The only one of that description. When this returns, the page that it leads to is there."""
        self._ask("POST", f"/element/{self._only(place)}/click")

    def type(self, place: str, text: str) -> None:
        """Into a field, in place of what is in it."""
        field = self._only(place)
        self._ask("POST", f"/element/{field}/clear")
        self._ask("POST", f"/element/{field}/value", text=text)

    def press(self, *keys: str) -> None:
        """Presses these keys together, such as Control and k, and lets them go."""
        told = [KEYS.get(key, key) for key in keys]
        strokes = [{"type": "keyDown", "value": key} for key in told]
        strokes += [{"type": "keyUp", "value": key} for key in reversed(told)]
        self._ask("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": strokes}])

    @property
    def focused(self) -> str:
        """The element that the keyboard writes to: its tag, and its text or its name."""
        return str(
            self.run(
                "const at = document.activeElement;"
                "return `${at.localName} ${at.textContent.trim() || at.getAttribute('aria-label') || at.name || ''}`"
            )
        ).strip()

    # --- who asks

    def headers(self, sent: Mapping[str, str]) -> None:
        """Goes with each request from now on."""
        self.chromium("Network.enable")
        self.chromium("Network.setExtraHTTPHeaders", headers=dict(sent))

    def login(self, name: str, password: str) -> None:
        """As a person types them when the browser asks."""
        told = base64.b64encode(f"{name}:{password}".encode()).decode()
        self.headers({"Authorization": f"Basic {told}"})

    @property
    def cookies(self) -> dict[str, dict[str, Any]]:
        """By name, with `value`, `httpOnly`, `sameSite`, `secure` and `path`."""
        return {one["name"]: one for one in self._ask("GET", "/cookie")}

    # --- what the browser is like

    def look(self, width: int = WIDE, height: int = 900, dark: bool = False, calm: bool = False) -> None:
        """From now on the window is so large, a phone if it is narrow, and the system's theme is light or dark. `calm`:
        the person wants little motion."""
        self._width = width
        self.chromium(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        wishes = {"color-scheme": "dark" if dark else "light", "reduced-motion": "reduce" if calm else "no-preference"}
        features = [{"name": f"prefers-{name}", "value": value} for name, value in wishes.items()]
        self.chromium("Emulation.setEmulatedMedia", features=features)

    def await_frames(self) -> None:
        """Until the page has been laid out and its listeners called for a new look. It needs JavaScript."""
        self.run("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def javascript(self, on: bool) -> None:
        self.chromium("Emulation.setScriptExecutionDisabled", value=not on)

    # --- what is wrong with a page

    @property
    def messages(self) -> list[str]:
        """What the console says since the last look, such as errors and breaches of the page's policy."""
        return [f"{one['level']}: {one['message']}" for one in self._ask("POST", "/se/log", type="browser")]

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        # Not `innerWidth`: a phone shows a page that is too wide smaller, and then this is the width of the page.
        return max(0, int(self.run("return document.documentElement.scrollWidth")) - self._width)

    def faults(self, impacts: Sequence[str] = ("serious", "critical")) -> list[str]:
        """What axe-core finds in the page that keeps people with a disability from using it."""
        # Not a script of the page, so that the page's policy does not keep it out.
        if not self._evaluate("Boolean(window.axe)"):
            self._evaluate(f"{AXE.read_text('utf-8')}; null")
        return [line for impact, line in json.loads(self._evaluate(f"{_FAULTS}.then(JSON.stringify)", wait=True))
                if impact in impacts]  # fmt: skip

    def _evaluate(self, expression: str, wait: bool = False) -> Any:
        told = self.chromium("Runtime.evaluate", expression=expression, awaitPromise=wait, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def picture(self, file: Path, whole: bool = True) -> None:
        """The whole page, as high as it is, or what the window shows of it."""
        size = self.chromium("Page.getLayoutMetrics")["cssContentSize"]
        wanted = {"captureBeyondViewport": True, "clip": {**size, "scale": 1}} if whole else {}
        told = self.chromium("Page.captureScreenshot", **wanted)
        file.write_bytes(base64.b64decode(told["data"]))

    def __enter__(self) -> Browser:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._driver.close()
