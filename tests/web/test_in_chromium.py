"""The pages in a real browser: in both themes, on a phone and on a wide screen, with the keyboard, live, without
JavaScript. Nothing may be said on the console, and axe-core may find no serious fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py
import web_scene
from chromium import Browser, lacks_chromium
from web_scene import Scene

from goworkers_py import App
from goworkers_py.config.web_options import WebConfig
from goworkers_py.web.port import open_port
from goworkers_py.web.site.settings import PageSettings
from goworkers_py.web.views.all_views import TABLE

# The first one starts the browser. One window at a time: with several, each is too slow.
pytestmark = [
    pytest.mark.server, pytest.mark.timeout(180), pytest.mark.xdist_group("chromium"),
    pytest.mark.skipif(bool(lacks_chromium()), reason=lacks_chromium() or "-"),
]  # fmt: skip


@pytest.fixture
def scene(app: App, redis: redis_py.Redis) -> Scene:
    return web_scene.restored(web_scene.fill_all, app, redis)


@pytest.fixture
def address(app: App, scene: Scene) -> Iterator[str]:
    pages = open_port(app, dataclasses.replace(WebConfig(), port=0))
    try:
        yield pages.address
    finally:
        pages.stop()


@pytest.fixture
def browser(chromium: Browser, address: str) -> Browser:
    """Signed in."""
    base, _, token = address.partition("/?")
    # A page that counts nothing: what it counts would still be fresh in the test.
    chromium.visit(base).open(f"/api-docs?{token}")
    return chromium


# The cells that do not say on a phone, where their row is a stack, what they are.
UNLABELLED = (
    "return [...document.querySelectorAll('table.stack td:not([data-label], .do, .box, [colspan])')]"
    ".map(cell => cell.outerHTML)"
)


def addresses(browser: Browser, scene: Scene) -> dict[str, str]:
    dead = browser.run("return fetch('/api/jobs?state=dead&limit=1').then(answer => answer.json())")["jobs"][0]
    of_dead = f"jid={dead['jid']}&state=dead&queue=mail&key={dead['key'].replace('|', '%7C')}"
    told = {
        "/queue": "/queue?name=mail", "/job": f"/job?{of_dead}", "/batch": f"/batch?bid={scene.bid}",
        "/chain": f"/chain?cid={scene.cid}", "/group": "/group?queue=billing&class=Invoice&name=user:7",
        "/limit": "/limit?name=stripe", "/periodic/one": "/periodic/one?name=nightly",
        "/configuration": "/configuration?name=billing",
    }  # fmt: skip
    views = [path for path, view in TABLE.views.items() if view.template and path != "/job/raw"]
    needy = [path for path in views if any(one.needed for one in TABLE.views[path].query) and path not in told]
    return {path: told.get(path, path) for path in views if path not in needy} | {
        f"/jobs {state}": f"/jobs?state={state}" for state in ("retry", "dead", "scheduled", "running", "limited")
    }


def test_a_phone_shows_the_figures_of_the_overview_unbroken_and_its_tables_whole(browser: Browser) -> None:
    browser.look(375)
    assert browser.until(lambda: browser.open("/") or ("counted" in browser.text and "Most time" in browser.text), 20)
    broken = "return [...document.querySelectorAll('.figure strong')].filter(one => one.offsetHeight > 40).length"
    assert browser.run(broken) == 0
    cut = "return [...document.querySelectorAll('.scroll:has(table)')].filter(one => one.scrollWidth > one.clientWidth)"
    assert browser.run(f"{cut}.length") == 0
    charts = "return [...document.querySelectorAll('.scroll:has(svg.chart)')].map(one => "
    newest = "one.getBoundingClientRect().right - one.firstElementChild.getBoundingClientRect().right"
    assert [abs(round(off)) for off in browser.run(f"{charts}{newest})")] == [0], "the last days are in view"


def test_the_buttons_of_a_periodic_job_with_a_long_name_are_in_sight_on_a_laptop(browser: Browser) -> None:
    browser.look(1280)
    browser.open("/periodic")
    browser.run(
        "for (const name of document.querySelectorAll("
        "'td[data-label=Name] a bdi, td[data-label=Class] bdi')) name.textContent = 'Payment::SecondChanceJob'"
    )
    out_of_sight = (
        "return [...document.querySelectorAll('td.do button')].map(button =>"
        " Math.round(button.getBoundingClientRect().right - button.closest('.scroll').getBoundingClientRect().right))"
    )
    assert max(browser.run(out_of_sight)) <= 0


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([(1440, False), (375, True)], id="wide light, narrow dark"),
        pytest.param([(1440, True), (375, False)], id="wide dark, narrow light", marks=pytest.mark.slow),
    ],
)
def test_each_page_is_without_faults_in_each_look_and_a_phone_says_what_each_cell_is(
    browser: Browser, scene: Scene, looks: list[tuple[int, bool]]
) -> None:
    browser.open("/")
    faults, pages = {}, addresses(browser, scene)
    for number, (name, path) in enumerate(pages.items()):
        # To load a page takes longer than to look at it. The width that comes first takes turns.
        for place, (width, dark) in enumerate(looks[:: -1 if number % 2 else 1]):
            browser.look(width, dark=dark, calm=True)  # else colours stay for a while between those of two themes
            if place == 0:
                browser.open(path)
            browser.await_frames()
            wide, said, found = browser.overflow, browser.messages, browser.faults()
            unlabelled = browser.run(UNLABELLED) if width == 375 else []
            if wide > 0 or said or found or unlabelled:
                faults[name, width, "dark" if dark else "light"] = wide, said, found, unlabelled
    assert faults == {}
    assert len(pages) > 15


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (375, True)])
def test_whoever_is_not_signed_in_is_told_how_in_the_middle_of_the_window(
    chromium: Browser, address: str, width: int, dark: bool
) -> None:
    chromium.visit(address.partition("/?")[0]).look(width, dark=dark, calm=True)
    chromium.open("/jobs")
    assert "Not signed in" in chromium.text
    off = "const box = document.querySelector('.trouble').getBoundingClientRect();"
    assert abs(chromium.run(f"{off} return box.left - (document.documentElement.clientWidth - box.right)")) <= 1
    assert (chromium.overflow, chromium.faults()) == (0, [])


def test_a_page_follows_what_happens_without_a_reload(browser: Browser, app: App) -> None:
    browser.open("/queues")
    browser.run("window.stayed = true")
    app.enqueue("brand-new", "MailJob", [1])
    assert browser.until(lambda: browser.shows("brand-new"), 30)
    assert browser.run("return window.stayed") is True
    assert browser.messages == []


def test_a_page_stands_still_while_jobs_are_selected(browser: Browser, app: App) -> None:
    browser.open("/jobs?state=retry")
    browser.click("(//input[@name='job'])[1]")
    assert "1 selected" in browser.text
    browser.run("window.asked = 0; document.addEventListener('htmx:config:request', () => { window.asked++; })")
    assert browser.until(lambda: browser.run("return window.asked") >= 1, 30)  # htmx wanted to, and was kept from it
    assert browser.run("return document.querySelectorAll('input[name=job]:checked').length") == 1


def test_jobs_are_selected_and_retried_with_the_mouse(browser: Browser, app: App) -> None:
    browser.open("/jobs?state=retry")
    # A look that is under way when jobs are selected puts an empty count in the place of theirs: no looks here.
    browser.run("document.addEventListener('htmx:before:request', event => event.preventDefault())")
    browser.click("//input[@data-all]")
    assert "40 selected" in browser.text
    browser.click("(//input[@name='job'])[1]")
    assert "39 selected" in browser.text
    browser.click("//button[text()='Run now']")
    assert browser.until(lambda: browser.shows("39 jobs put into their queues"))
    assert app.inspector.count(app.inspector.RETRIES) == 1
    assert browser.messages == []


def test_enter_in_a_field_beside_the_buttons_does_what_the_field_is_for(browser: Browser, app: App) -> None:
    browser.open("/jobs?state=retry")
    browser.click("(//input[@name='job'])[1]")
    browser.type("//input[@name='at']", "+9h")
    browser.press("Enter")
    assert browser.until(lambda: browser.shows("1 job rescheduled"))
    assert app.inspector.count(app.inspector.RETRIES) == 40
    browser.open("/jobs?state=waiting&queue=mail")
    browser.click("(//input[@name='job'])[1]")
    browser.type("//input[@name='to']", "slow")
    browser.press("Enter")
    assert browser.until(lambda: browser.shows("1 job moved to queue slow"))
    assert app.inspector.count(app.inspector.waiting_in("slow")) == 1
    assert browser.messages == []


def test_all_that_fit_are_deleted_after_a_question_and_go_on_by_themselves(
    browser: Browser, app: App, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goworkers_py.web.views.bulk.SLICE_S", 0.0)
    redis.zadd("dead", {f'{{"class":"Old","args":[],"jid":"old{n}"}}': 1_000.0 + n for n in range(2_000)})
    browser.open("/jobs?state=dead&class=Old")
    browser.click("//label[contains(., 'that fit the filter')]//input")
    browser.click("//button[text()='Delete']")
    assert browser.until(lambda: browser.shows("Delete all jobs of class Old"))
    browser.click("//button[text()='Yes, do it']")
    assert browser.until(lambda: browser.shows("2000 jobs deleted"), 60)
    assert app.inspector.count(app.inspector.DEAD) == 30
    assert browser.messages == []


@pytest.mark.parametrize("keys", [("/",), ("Control", "k"), ("?",)])
def test_the_palette_leads_to_a_page_by_the_keyboard_alone(browser: Browser, keys: tuple[str, ...]) -> None:
    browser.open("/queues")
    browser.press(*keys)
    assert browser.has("//dialog[@open]")
    for letter in "limi":
        browser.press(letter)
    browser.press("Enter")
    assert browser.until(lambda: browser.address == "/limits")
    assert browser.messages == [] or all("/api/find" in line for line in browser.messages)


def test_keys_lead_through_pages_and_rows(browser: Browser) -> None:
    browser.open("/")
    browser.press("g", "q")  # in one call: the page waits for the second key for a moment only
    assert browser.until(lambda: browser.address == "/queues")
    browser.press("j")
    first = browser.run("return document.activeElement.textContent")
    browser.press("j")
    second = browser.run("return document.activeElement.textContent")
    browser.press("k")
    assert browser.run("return document.activeElement.textContent") == first != second
    browser.press("Enter")
    assert browser.until(lambda: browser.address.startswith("/queue?name="))
    browser.press("/")
    browser.press("Escape")
    assert not browser.has("//dialog[@open]")


def test_a_table_is_sorted_by_the_keyboard_and_stays_so_when_it_follows_what_happens(
    browser: Browser, app: App
) -> None:
    browser.open("/queues")
    browser.run("document.querySelector('main').focus()")
    browser.press("Tab")
    browser.press("Tab")
    assert browser.focused == "a Waiting"
    browser.press("Enter")
    assert browser.until(
        lambda: browser.address == "/queues?sort=-size" and browser.has("//th[@aria-sort='descending']")
    )
    browser.run("window.stayed = true")
    app.enqueue_bulk("a-full-one", "MailJob", [[number] for number in range(60)])  # never seen with fewer
    assert browser.until(lambda: browser.shows("a-full-one"), 30)
    assert browser.texts("(//tbody//td[1])[1]") == ["a-full-one"]
    assert browser.run("return window.stayed") is True
    assert browser.texts("th[aria-sort]") == ["Waiting"]
    assert browser.messages == []


@pytest.mark.parametrize("width", [1440, 375])
def test_without_javascript_a_table_is_sorted_by_its_headers(browser: Browser, width: int) -> None:
    browser.javascript(on=False)
    browser.look(width)
    browser.open("/jobs?state=retry&class=MailJob")
    for label, order, address in (("Error", "ascending", "error"), ("Tries", "descending", "-retry_count")):
        browser.click(f"//th/a[text()='{label}']")
        assert browser.address == f"/jobs?state=retry&class=MailJob&sort={address}"
        assert browser.texts(f"th[aria-sort={order}]") == [label]
    browser.click("//th/a[text()='Tries']")
    assert browser.address == "/jobs?state=retry&class=MailJob&sort=retry_count"
    browser.click("//th/a[text()='Tries']")
    assert browser.address == "/jobs?state=retry&class=MailJob"
    assert browser.messages == []
    browser.javascript(on=True)
    browser.open("/jobs?state=retry&sort=-error")
    assert browser.overflow == 0
    assert browser.faults() == []


def test_the_theme_is_chosen_by_hand_and_stays(browser: Browser) -> None:
    browser.open("/")
    light = browser.run("return getComputedStyle(document.body).backgroundColor")
    browser.click("//button[@id='theme']")
    dark = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert light != dark
    browser.open("/queues")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == dark


def test_without_javascript_pages_and_changes_work(browser: Browser, app: App, scene: Scene) -> None:
    browser.open("/")
    pages = addresses(browser, scene)
    browser.javascript(on=False)
    for path in list(pages.values())[::4]:
        assert len(browser.open(path)) > 50
    browser.open("/queues")
    browser.click("//tr[contains(., 'mail')]//button[text()='Pause']")
    assert browser.until(lambda: browser.shows("queue mail is paused"))
    browser.open("/jobs?state=dead")
    browser.click("(//input[@name='job'])[1]")
    browser.click("//button[text()='Delete']")
    browser.click("//button[text()='Yes, do it']")
    assert browser.until(lambda: browser.shows("1 job deleted"))
    assert app.inspector.count(app.inspector.DEAD) == 29
    assert browser.messages == []


def test_markup_of_a_job_is_shown_and_does_nothing(browser: Browser, redis: redis_py.Redis, tmp_path: Path) -> None:
    evil = '<img src=x onerror="window.evil=1"><script>window.evil=1</script>'
    raw = (
        '{"class":%s,"args":[%s,{"%s":1}],"jid":"<b>j</b>","queue":%s,"error_class":%s,"error_message":%s,"tags":[%s]}'
    )
    text = '"' + evil.replace('"', '\\"') + '"'
    name = evil.replace('"', '\\"')
    redis.zadd("retry", {raw % (text, text, name, text, text, text, text): 4_000_000_000.0})
    redis.sadd("queues", evil)
    redis.lpush(f"queue:{evil}", raw % (text, text, name, text, text, text, text))
    for path in ("/jobs?state=retry&order=newest", "/queues", "/", "/jobs?state=waiting"):
        text_shown = browser.open(path)
        assert browser.run("return window.evil ?? 0") == 0
        assert "<img src=x" in text_shown or path == "/jobs?state=waiting"
    browser.open("/jobs?state=retry&order=newest")
    browser.click("(//a[@class='jid'])[1]")
    assert browser.run("return window.evil ?? 0") == 0
    assert browser.messages == []


def test_the_settings_of_the_section_are_those_of_the_pages() -> None:
    assert PageSettings(hide=WebConfig().hide) == PageSettings()
