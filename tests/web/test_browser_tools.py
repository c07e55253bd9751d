"""The browser of the tests of the pages: that it sees what it is to see. Without that, "no fault" says nothing."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import PHONE, Browser, lacks_chromium

from goworkers_py.web.server import WebServer

pytestmark = [
    pytest.mark.server, pytest.mark.timeout(180), pytest.mark.xdist_group("chromium"),
    pytest.mark.skipif(bool(lacks_chromium()), reason=lacks_chromium() or "-"),
]  # fmt: skip

POLICY = "default-src 'self'; style-src 'self'; script-src 'self'; img-src 'self' data:"
PAGES = {
    "/": '<h1>Fine</h1><a href="/other" id="on">on</a><form><label>name <input name="name"></label></form>',
    "/other": "<h1>Other</h1><noscript><b>no scripts here</b></noscript>",
    "/faulty": '<h1>Faulty</h1><input name="nameless"><img src="/missing.png"><font color="#eeeeee">pale</font>',
    "/wide": '<h1>Wide</h1><hr width="900">',
    "/keys": '<h1>Keys</h1><p id="said"></p><input aria-label="first"><input aria-label="second">'
             '<script src="/keys.js"></script>',
}  # fmt: skip
KEYS_JS = """
    document.addEventListener('keydown', event => {
        document.querySelector('#said').textContent += `${event.ctrlKey ? 'ctrl+' : ''}${event.key} `;
        if (event.ctrlKey) event.preventDefault();
    });
"""
PAGE = """<!doctype html><html lang="en"><head><title>t</title><link rel="icon" href="data:,">
    <meta name="viewport" content="width=device-width"></head><body><main>%s</main>"""


def pages(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    path = environ["PATH_INFO"]
    if path == "/keys.js":
        start("200 OK", [("Content-Type", "text/javascript"), ("Content-Length", str(len(KEYS_JS)))])
        return [KEYS_JS.encode()]
    told = PAGES.get(path, f"<h1>{environ.get('HTTP_AUTHORIZATION', 'nobody')}</h1>")
    body = (PAGE % told).encode()
    headers = [
        ("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body))),
        ("Set-Cookie", "seen=yes; HttpOnly; SameSite=Strict; Path=/"),
    ]  # fmt: skip
    if path != "/other":
        headers.append(("Content-Security-Policy", POLICY))
    start("404 Not Found" if path.endswith(".png") else "200 OK", headers)
    return [body]


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    server = WebServer("127.0.0.1", 0, pages, "pages")
    server.start()
    try:
        yield chromium.visit(f"http://127.0.0.1:{server.port}")
    finally:
        server.stop()


# --- what is wrong with a page


def test_a_page_without_faults_has_none(browser: Browser) -> None:
    assert "Fine" in browser.open("/")
    assert (browser.messages, browser.faults(("serious", "critical", "moderate")), browser.overflow) == ([], [], 0)


def test_an_error_and_a_breach_of_the_policy_are_messages_and_told_once(browser: Browser) -> None:
    browser.open("/")
    browser.run("setTimeout(() => { throw Error('broken') }); document.body.append('a')")
    browser.run(
        "const evil = document.createElement('script'); evil.text = 'window.evil = 1'; document.body.append(evil)"
    )
    browser.run("document.body.setAttribute('style', 'color: red')")
    said = "\n".join(browser.messages)
    assert "broken" in said
    assert "script-src" in said
    assert "style-src" in said
    assert browser.run("return window.evil ?? 0") == 0
    assert browser.messages == []


def test_a_file_that_is_missing_is_a_message(browser: Browser) -> None:
    browser.open("/faulty")
    assert any("/missing.png" in message and "404" in message for message in browser.messages)


def test_axe_finds_faults_in_spite_of_the_policy(browser: Browser) -> None:
    browser.open("/faulty")
    found = browser.faults()
    assert sorted(line.split(" (")[1].split(")")[0] for line in found) == ["color-contrast", "image-alt", "label"]
    assert found == browser.faults()
    assert all(line.startswith("serious: ") for line in browser.faults(["serious"]))
    assert not any("Content Security Policy" in message for message in browser.messages)


def test_a_page_that_is_wider_than_a_phone_overflows(browser: Browser) -> None:
    browser.look(PHONE)
    browser.open("/wide")
    assert browser.overflow > 500
    browser.look()
    browser.open("/wide")
    assert browser.overflow == 0


def test_a_picture_is_of_the_whole_page(browser: Browser, tmp_path: Path) -> None:
    browser.open("/")
    browser.run("document.body.append(Object.assign(document.createElement('br'), {id: 'low'}))")
    browser.run("document.querySelector('main').style.height = '3000px'")
    browser.picture(tmp_path / "page.png")
    width, height = struct.unpack(">II", (tmp_path / "page.png").read_bytes()[16:24])
    assert width == 1440
    assert height > 3000


# --- what a person does


def test_links_fields_and_the_way_back(browser: Browser) -> None:
    browser.open("/")
    browser.type("[name=name]", "Ada")
    browser.type("//label//input", "Grace")
    assert browser.run("return document.querySelector('input').value") == "Grace"
    browser.click("#on")
    assert browser.address == "/other"
    assert browser.texts("h1") == browser.texts("//h1") == ["Other"]
    browser.back()
    assert browser.address == "/"
    assert browser.has("#on")
    assert not browser.has("#off")
    with pytest.raises(AssertionError, match="0 of #off in:\nFine"):
        browser.click("#off")


def test_keys_go_to_the_page_and_through_its_fields(browser: Browser) -> None:
    browser.open("/keys")
    for keys in (["/"], ["Escape"], ["ArrowDown"], ["Control", "k"], ["Tab"], ["x"], ["Tab"], ["Shift", "Tab"]):
        browser.press(*keys)
    assert browser.focused == "input first"
    assert browser.run("return document.activeElement.value") == "x"
    assert browser.texts("#said") == ["/ Escape ArrowDown ctrl+Control ctrl+k Tab x Tab Shift Tab"]


def test_the_wishes_of_the_system_are_told_to_the_page(browser: Browser) -> None:
    def fits(wish: str) -> bool:
        return bool(browser.run("return matchMedia(arguments[0]).matches", wish))

    browser.open("/")
    assert not fits("(prefers-color-scheme: dark)")
    assert not fits("(prefers-reduced-motion: reduce)")
    browser.look(PHONE, dark=True, calm=True)
    assert fits("(prefers-color-scheme: dark)")
    assert fits("(prefers-reduced-motion: reduce)")
    assert fits("(width: 375px)")


def test_without_javascript_a_page_runs_none(browser: Browser) -> None:
    browser.javascript(on=False)
    browser.open("/other")
    assert browser.has("noscript b")
    browser.open("/keys")
    browser.press("/")
    assert browser.texts("#said") == [""]
    browser.javascript(on=True)
    browser.open("/other")
    assert not browser.has("noscript b")


def test_a_login_goes_with_each_request(browser: Browser) -> None:
    browser.open("/who")
    assert browser.texts("h1") == ["nobody"]
    browser.login("ada", "pass: word")
    for path in ("/who", "/who/again"):
        browser.open(path)
        scheme, _, told = browser.texts("h1")[0].partition(" ")
        assert (scheme, base64.b64decode(told)) == ("Basic", b"ada:pass: word")
    browser.headers({})
    browser.open("/who")
    assert browser.texts("h1") == ["nobody"]


def test_nothing_of_a_test_is_left_for_the_next_one(browser: Browser) -> None:
    browser.open("/faulty")
    assert browser.cookies["seen"]["httpOnly"]
    assert browser.cookies["seen"]["sameSite"] == "Strict"
    browser.login("ada", "word")
    browser.look(PHONE, dark=True)
    browser.javascript(on=False)
    base = browser.run("return location.origin")
    browser.visit(base)
    assert browser.messages == []
    assert browser.cookies == {}
    assert "nobody" in browser.open("/who")
    assert browser.run("return [innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]") == [1440, False]
    browser.open("/other")
    assert not browser.has("noscript b")


def test_a_page_is_waited_for(browser: Browser) -> None:
    browser.open("/")
    browser.run("setTimeout(() => document.querySelector('h1').append(' and late'), 300)")
    assert browser.until(lambda: browser.shows("Fine and late"))
