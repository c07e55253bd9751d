"""The pages inside Django, Flask and FastAPI: the real frameworks, with their login, as examples/web has them."""

from __future__ import annotations

import http.cookiejar
import os
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from apps import own_app
from servers import free_port
from waiting import eventually

from goworkers_py import App

EXAMPLES = Path(__file__).parents[2] / "examples" / "web"
PATHS = {"django": "/admin/jobs", "flask": "/jobs", "fastapi": "/jobs"}
LOGINS = {"django": "/admin/login/?next=/admin/jobs/", "flask": "/login", "fastapi": "/login"}


class Site:
    """One user's browser, as far as cookies go."""

    def __init__(self, base: str, framework: str) -> None:
        self.base = base
        self.path = PATHS[framework]
        self._login = LOGINS[framework]
        self._cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))

    def ask(self, path: str, fields: dict[str, str] | None = None) -> tuple[int, str, str]:
        """The status, the text and the address where redirections have ended."""
        body = None if fields is None else urllib.parse.urlencode(fields).encode()
        try:
            with self._opener.open(f"{self.base}{path}", body, timeout=20) as answer:
                return answer.status, answer.read().decode(), answer.url
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), error.url

    def log_in(self, user: str) -> tuple[int, str, str]:
        page = self.ask(self._login)[1]
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        more = {"csrfmiddlewaretoken": found[1], "username": user, "next": f"{self.path}/"} if found else {"user": user}
        return self.ask(self._login, {"password": user, **more})

    def token(self) -> str:
        return next(one.value or "" for one in self._cookies if one.name.endswith("pyworkers-csrf"))


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url) as made:
        made.enqueue("mail", "MailJob", ["ada"])
        yield made


@pytest.fixture(params=list(PATHS))
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def base(framework: str, app: App, redis_url: str) -> Iterator[str]:
    port = free_port()
    environ = {name: value for name, value in os.environ.items() if name not in ("PASSWORD", "SECRET_KEY")}
    running = subprocess.Popen(
        [sys.executable, EXAMPLES / f"{framework}_pages.py", str(port)],
        env={**environ, "PYWORKERS_BROKER": redis_url}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        assert "http://" in running.stdout.readline()
        address = f"http://127.0.0.1:{port}"
        site = Site(address, framework)
        assert eventually(lambda: _answers(site))
        yield address
    finally:
        running.terminate()
        running.communicate()


def _answers(site: Site) -> bool:
    try:
        return site.ask("/nosuch")[0] == 404
    except OSError:
        return False


def test_the_pages_are_closed_until_somebody_has_logged_in(base: str, framework: str) -> None:
    site = Site(base, framework)
    status, text, url = site.ask(f"{site.path}/queues")
    assert status == 403 or "login" in url
    assert "MailJob" not in text
    assert "/queue?name=mail" not in text


def test_after_the_login_the_pages_are_there_below_their_path(base: str, framework: str) -> None:
    site = Site(base, framework)
    status, text, url = site.log_in("staff")
    assert (status, url) == (200, f"{base}{site.path}/")
    assert f'href="{site.path}/queue?name=mail"' in text
    assert "Background jobs" in text
    style = re.search(r'href="([^"]+style\.css[^"]*)"', text)
    assert style
    assert site.ask(style[1])[0] == 200
    assert "<bdi>MailJob</bdi>" in site.ask(f"{site.path}/jobs?state=waiting&queue=mail")[1]
    assert site.ask(f"{site.path}/api/queues")[1].startswith('{"queues":')


def test_who_may_act_changes_a_queue_and_another_user_does_not(base: str, framework: str, app: App) -> None:
    for user, status in (("staff", 403), ("root", 200)):
        site = Site(base, framework)
        site.log_in(user)
        form = {"name": "mail", "_csrf": site.token(), "_back": f"{site.path}/queues"}
        told = site.ask(f"{site.path}/queue/pause", form)
        assert told[0] == status, told[1]
        found = app.inspector.queue("mail")
        assert found is not None
        assert found.paused is (user == "root")
    assert "queue mail is paused" in told[1]
    assert user in told[1]  # who has logged in, for the audit
    assert site.ask(f"{site.path}/queue/resume", {"name": "mail", "_csrf": "wrong"})[0] == 403


@pytest.mark.parametrize("framework", ["django"], indirect=True)
def test_the_pages_are_in_the_menu_of_djangos_admin(framework: str, base: str) -> None:
    site = Site(base, framework)
    site.log_in("root")
    assert 'href="/admin/jobs/"' in site.ask("/admin/")[1]
