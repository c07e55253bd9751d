"""Attacks on the pages on a port of their own, over real HTTP: as an outsider, and as an insider with few rights."""

from __future__ import annotations

import base64
import dataclasses
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.config.web_options import WebConfig
from goworkers_py.web import application
from goworkers_py.web.port import open_port
from goworkers_py.web.site import access_file
from goworkers_py.web.site.access import ROLES, Access, Grant
from goworkers_py.web.site.access_file import password_line, token_line
from goworkers_py.web.views.all_views import TABLE

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_file, "_LOG_N", 10)


@contextmanager
def serving(app: App, **options: Any) -> Iterator[tuple[str, str]]:
    """The address, and the token of the start."""
    pages = open_port(app, dataclasses.replace(WebConfig(), port=0, **options))
    try:
        address, _, token = pages.address.partition("/?token=")
        yield address.removesuffix("/"), token
    finally:
        pages.stop()


def ask(address: str, body: bytes | None = None, **headers: str) -> tuple[int, str, Mapping[str, str]]:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = urllib.request.Request(address, data=body, headers=told)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers


def basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def test_another_user_of_this_machine_and_a_bare_proxy_on_it_get_nothing(app: App) -> None:
    with serving(app) as (address, token):
        host = address.removeprefix("http://")
        for headers in ({}, {"Host": host}, {"Host": "localhost"}):  # a bare proxy sends the name of its upstream
            for path in ("/", "/queues", "/api/queues", "/api/openapi.json", "/nosuch", "/?token=wrong"):
                assert ask(f"{address}{path}", **headers)[0] == 401
            push = json.dumps({"class": "A", "queue": "q"}).encode()
            assert ask(f"{address}/api/enqueue", push, Content_Type="application/json", **headers)[0] == 401
        text = ask(f"{address}/queues")[1]
        assert "with ?token= at its end" in text
        assert "web grant NAME" in text
        assert app.inspector.queues() == []
        assert ask(f"{address}/api/queues", Authorization=f"Bearer {token}")[0] == 200


def test_guesses_that_come_at_once_are_checked_up_to_the_limit_and_a_token_still_gets_in(
    app: App, tmp_path: Path
) -> None:
    line, token = token_line("ci", "view")
    (tmp_path / "access").write_text(f"{password_line('ada', 'act', 'correct horse battery')}\n{line}\n")
    with serving(app, access_file=str(tmp_path / "access")) as (address, _), ThreadPoolExecutor(45) as threads:
        guesses = [basic("ada", f"wrong {number}") for number in range(45)]
        statuses = list(threads.map(lambda guess: ask(f"{address}/", Authorization=guess)[0], guesses))
        assert 0 < statuses.count(401) <= 10
        assert set(statuses) <= {401, 429, 503}
        assert ask(f"{address}/api/queues", Authorization=f"Bearer {token}")[0] == 200


def test_a_trusted_proxy_tells_whose_guesses_they_are(app: App, tmp_path: Path) -> None:
    (tmp_path / "access").write_text(f"{password_line('ada', 'act', 'correct horse battery')}\n")
    with serving(app, access_file=str(tmp_path / "access"), trusted_proxies=("127.0.0.1",)) as (address, _):
        for client, expected in (("192.0.2.1", 10 * [401] + [429]), ("192.0.2.2", [401])):
            told = {"X_Forwarded_For": f"6.6.6.6, {client}", "Authorization": basic("ada", "wrong")}
            assert [ask(f"{address}/", **told)[0] for _ in expected] == expected


class As:
    """The access of somebody with this role."""

    def __init__(self, role: str) -> None:
        self._role = role

    def decide(self, environ: Any) -> Grant:
        return Grant("ada", self._role)


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_do_what_its_name_says_and_nothing_else(app: App, role: str) -> None:
    access: Access = As(role)
    client = Client(application(app, access=access))
    client.get("/")
    allowed = {
        way(path)
        for path in TABLE.actions
        for way, status in (
            (lambda path: f"form {path}", client.post(path).status),
            (lambda path: f"api {path}", client.api(f"/api{path}", {}).status),
        )
        if status != 403
    }
    pushes = {f"{way} {path}" for way in ("form", "api") for path in ("/enqueue", "/enqueue/bulk")}
    everything = {f"{way} {path}" for way in ("form", "api") for path in TABLE.actions}
    assert allowed == {"view": set(), "push": pushes, "act": everything}[role]


def test_a_role_sees_only_the_buttons_that_it_may_use(app: App) -> None:
    app.enqueue("mail", "MailJob", [1])
    shown = {}
    for role in ROLES:
        client = Client(application(app, access=As(role)))
        text = "".join(client.get(path).text for path in ("/jobs?state=waiting&queue=mail", "/enqueue-form", "/queues"))
        buttons = ("Push a job</a>", "Push the job</button>", "Delete</button>", "Pause</button>")
        shown[role] = [button for button in buttons if button in text]
    assert shown == {"view": [], "push": list(buttons[:2]), "act": list(buttons)}


def test_who_may_push_pushes_by_page_and_by_api(app: App) -> None:
    client = Client(application(app, access=As("push")))
    assert client.post("/enqueue", {"class": "MailJob", "queue": "mail"}).status == 303
    assert client.api("/api/enqueue", {"class": "MailJob", "queue": "mail"}).json["jid"]
    assert client.api("/api/enqueue/bulk", {"jobs": [{"class": "MailJob", "queue": "mail"}]}).status == 200
    assert app.inspector.count(app.inspector.waiting_in("mail")) == 3
    told = client.api("/api/queue/clear", {"name": "mail"})
    assert told.json["error"] == "you may look and push jobs: to do this, ask who runs these pages for the role `act`"


def test_nothing_that_needs_a_login_is_kept_by_a_browser(app: App) -> None:
    client = Client(application(app, access=As("act")))
    for path, view in TABLE.views.items():
        for address in ([path] if view.template else []) + [f"/api{path}"]:
            assert client.get(address).headers["cache-control"] == "no-store", address
    assert client.post("/queue/pause", {"name": "mail"}).headers["cache-control"] == "no-store"
    assert client.get("/nosuch").headers["cache-control"] == "no-store"
    assert client.get("/static/style.css").headers["cache-control"] == "no-cache"


def test_a_browser_signs_in_by_the_address_and_out_by_a_button(app: App) -> None:
    with serving(app) as (address, token):
        jar = urllib.request.HTTPCookieProcessor()
        browser = urllib.request.build_opener(jar)
        with browser.open(f"{address}/queues?token={token}") as page:
            text = page.read().decode()
            assert page.url == f"{address}/queues"
        assert "Sign out" in text
        assert token not in text
        form = f"_csrf={text.partition('sign-out')[2].partition('value=')[2][1:33]}".encode()
        with pytest.raises(urllib.error.HTTPError, match="401") as signed_out:
            browser.open(f"{address}/sign-out", form)
        signed_out.value.close()
        assert {cookie.name for cookie in jar.cookiejar} == {"pyworkers-csrf"}
