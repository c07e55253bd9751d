"""The application around the pages: who may see and change what, how pages and JSON are answered."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import own_app
from servers import free_port
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application
from goworkers_py.web.site import rendering
from goworkers_py.web.site.application import Application

CACHES = lambda: [  # noqa: E731
    one.cache_info() for one in vars(rendering).values() if hasattr(one, "cache_info")
]
EVERYBODY = lambda environ, action: True  # noqa: E731


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url) as made:
        made.enqueue("mail", "MailJob", ["ada"])
        yield made


@pytest.fixture
def pages(app: App) -> Application:
    return application(app, authorize=EVERYBODY)


@pytest.fixture
def client(pages: Application) -> Client:
    return Client(pages)


# --- pages and JSON


def test_a_page_and_its_json_show_the_same_queue(client: Client) -> None:
    assert ">mail<" in client.get("/queues").text
    (queue,) = client.get("/api/queues").json["queues"]
    assert (queue["name"], queue["size"], queue["paused"]) == ("mail", 1, False)


def test_json_keeps_the_digits_of_a_job(client: Client, redis_url: str) -> None:
    raw = b'{"class":"A","args":[1.50,12345678901234567890.10],"jid":"j1","queue":"mail"}'
    redis_py.Redis.from_url(redis_url).zadd("retry", {raw: 2_000_000_000.0})
    assert "12345678901234567890.10" in client.get("/api/jobs?state=retry").text


def test_an_unknown_page_is_not_found_and_an_unknown_parameter_value_says_what_is_possible(client: Client) -> None:
    assert client.get("/nosuch").status == 404
    assert client.get("/api/nosuch").json == {"error": "there is no page /nosuch"}
    wrong = client.get("/api/jobs?state=lost")
    assert (wrong.status, wrong.json["error"][:45]) == (400, "state: must be one of scheduled, waiting, lim")
    assert "not as large as 999" in client.get(f"/api/jobs?limit={'9' * 400}").json["error"]
    assert client.get("/api/jobs?limit=many").json["error"] == "limit: must be a whole number, is 'many'"
    assert "name is missing" in client.get("/queue").text


def test_a_time_that_is_no_number_is_refused(client: Client) -> None:
    for path in ("/api/jobs?state=retry&since=nan", "/api/job?jid=x&state=retry&key=nan|x"):
        assert client.get(path).status == 400
    assert client.api("/api/jobs/delete", {"state": "retry", "job": ["nan|x"]}).status == 400


def test_a_page_that_has_not_changed_is_not_sent_again(client: Client) -> None:
    first = client.get("/api/queues")
    assert first.headers["etag"]
    again = client.get("/api/history-of-nothing", If_None_Match="x")
    assert again.status == 404
    static = client.get("/static/style.css")
    assert client.get("/static/style.css", If_None_Match=static.headers["etag"]).status == 304


def test_a_long_page_is_compressed_where_the_browser_can_read_that(client: Client) -> None:
    assert client.get("/", Accept_Encoding="br, gzip").headers["content-encoding"] == "gzip"
    assert client.get("/", Accept_Encoding="br;q=1.0, GZIP;q=0.5").headers["content-encoding"] == "gzip"
    for refused in ("gzip;q=0", "gzip; q=0.000", "br, gzip;\tQ=0."):
        assert "content-encoding" not in client.get("/", Accept_Encoding=refused).headers
    assert "<h1>" in client.get("/", Accept_Encoding="gzip").text


def test_files_of_the_pages_may_be_kept_and_no_other_file_is_served(client: Client) -> None:
    page = client.get("/").text
    address = next(part for part in page.split('"') if part.startswith("/static/style.css?v="))
    assert "immutable" in client.get(address).headers["cache-control"]
    for path in ("/static/../rendering.py", "/static/nosuch.css", "/static/", "/static/%2e%2e/site/csrf.py"):
        assert client.get(path).status == 404


def test_links_stay_below_the_path_under_which_the_pages_are_mounted(pages: Application) -> None:
    client = Client(pages, {"SCRIPT_NAME": "/admin/jobs"})
    page = client.get("/queues").text
    assert 'href="/admin/jobs/queue?name=mail"' in page
    assert 'href="/queue' not in page
    assert client.post("/queue/pause", {"name": "mail"}).location == "/admin/jobs/"


def test_every_answer_forbids_scripts_of_others_and_frames(client: Client) -> None:
    for path in ("/", "/api/queues", "/nosuch", "/static/style.css"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_a_page_has_no_script_or_style_inside(client: Client) -> None:
    page = client.get("/").text
    assert "<style" not in page
    assert " style=" not in page
    assert all("src=" in tag for tag in page.split("<script")[1:])


def test_the_name_of_an_unknown_partition_is_not_found(client: Client) -> None:
    assert client.get("/queues?partition=nosuch").status == 404


# --- an outage


def test_without_the_broker_the_page_says_so_and_asks_to_come_back() -> None:
    with own_app(f"redis://127.0.0.1:{free_port()}") as app:
        client = Client(application(app, authorize=EVERYBODY))
        for path in ("/queues", "/jobs?state=retry", "/"):
            answer = client.get(path)
            assert (answer.status, answer.headers["retry-after"]) == (503, "5")
            assert "the broker does not answer" in answer.text
        assert client.get("/api/queues").status == 503


# --- who may


def test_without_authorize_the_pages_are_closed_and_say_what_to_give(app: App) -> None:
    answer = Client(application(app)).get("/")
    assert answer.status == 403
    assert "authorize" in answer.text
    assert "mail" not in answer.text


def may_only(*allowed: str) -> Any:
    return lambda environ, action: action in allowed


def test_who_may_only_view_changes_nothing_and_sees_no_buttons(app: App) -> None:
    client = Client(application(app, authorize=may_only("view")))
    page = client.get("/queues")
    assert page.status == 200
    assert "Pause" not in page.text
    assert client.post("/queue/pause", {"name": "mail"}).status == 403
    assert client.api("/api/queue/pause", {"name": "mail"}).status == 403
    assert not queue(app).paused


def test_who_may_not_view_may_not_act(app: App) -> None:
    client = Client(application(app, authorize=may_only("act")))
    assert client.get("/queues").status == 403
    assert client.api("/api/queue/pause", {"name": "mail"}).status == 403
    assert not queue(app).paused


def test_read_only_pages_change_nothing_for_anybody(app: App) -> None:
    client = Client(application(app, authorize=EVERYBODY, read_only=True))
    assert "Pause" not in client.get("/queues").text
    answer = client.post("/queue/pause", {"name": "mail"})
    assert answer.status == 403
    assert "read-only" in answer.text
    assert not queue(app).paused


def queue(app: App) -> Any:
    return app.inspector.queue("mail")


# --- other sites


def test_a_form_without_the_token_changes_nothing(app: App, client: Client) -> None:
    client.get("/")
    for token in ("", "0" * 32, client.token[:-1]):
        assert client.post("/queue/pause", {"name": "mail", "_csrf": token}).status == 403
    assert not queue(app).paused
    assert client.post("/queue/pause", {"name": "mail"}).status == 303
    assert queue(app).paused


def test_a_token_without_its_cookie_changes_nothing(app: App, pages: Application) -> None:
    other = Client(pages)
    other.get("/")
    assert Client(pages).ask(
        "POST", "/queue/pause", f"name=mail&_csrf={other.token}".encode(),
        {"Content_Type": "application/x-www-form-urlencoded"},
    ).status == 403  # fmt: skip
    assert not queue(app).paused


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)  # fmt: skip
def test_a_change_that_another_site_sends_is_not_made(app: App, client: Client, headers: dict[str, str]) -> None:
    assert client.post("/queue/pause", {"name": "mail"}, **headers).status == 403
    assert client.api("/api/queue/pause", {"name": "mail"}, **headers).status == 403
    assert not queue(app).paused


def test_a_change_from_our_own_page_is_made(app: App, client: Client) -> None:
    sent = {"Sec_Fetch_Site": "same-origin", "Origin": "http://127.0.0.1"}
    assert client.post("/queue/pause", {"name": "mail"}, **sent).status == 303


def test_json_of_another_type_counts_as_a_form_and_needs_the_token(app: App, client: Client) -> None:
    body = json.dumps({"name": "mail"}).encode()
    for kind in ("text/plain", "multipart/form-data; boundary=x", ""):
        assert client.ask("POST", "/api/queue/pause", body, {"Content_Type": kind}).status in (403, 415)
    assert not queue(app).paused


def test_a_get_never_changes_anything(app: App, client: Client) -> None:
    answer = client.get("/queue/pause?name=mail")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    for method in ("PUT", "DELETE", "PATCH"):
        assert client.ask(method, "/queue/pause?name=mail").status == 405
    assert not queue(app).paused


def test_the_cookie_of_the_token_is_not_for_scripts_or_other_sites(pages: Application) -> None:
    (line,) = Client(pages).get("/").cookies
    assert "HttpOnly" in line
    assert "SameSite=Strict" in line
    (secure,) = Client(pages, {"wsgi.url_scheme": "https"}).get("/").cookies
    assert secure.startswith("__Host-")
    assert "Secure" in secure


def test_a_bearer_that_gave_no_rights_does_not_replace_the_token_of_the_form(app: App, client: Client) -> None:
    answer = client.post("/queue/pause", {"name": "mail", "_csrf": ""}, Authorization="Bearer x.y")
    assert answer.status == 403
    assert not queue(app).paused


def test_a_body_of_unknown_length_is_refused(client: Client) -> None:
    body = b'{"name": "mail"}'
    told = {"Content_Type": "application/json", "Content_Length": "", "Transfer_Encoding": "chunked"}
    assert client.ask("POST", "/api/queue/pause", body, told).status == 411


# --- what is hidden


def test_nobody_learns_a_hidden_value_by_searching_for_its_beginning(app: App, client: Client, redis_url: str) -> None:
    raw = '{"class":"A","args":[{"password":"hunter2","city":"Rome"}],"jid":"j1","queue":"mail"}'
    redis_py.Redis.from_url(redis_url).zadd("retry", {raw: 2_000_000_000.0})
    found = {
        query: len(client.get(f"/api/jobs?state=retry&{query}").json["jobs"])
        for query in ("match=hunter", "match=Rome", "match=A", "class=A", "argument=hunter2")
    }
    assert found == {"match=hunter": 0, "match=Rome": 1, "match=A": 1, "class=A": 1, "argument=hunter2": 0}
    assert "hunter2" not in client.get("/jobs?state=retry").text
    client.sure("/jobs/delete", {"state": "retry", "all": "yes", "match": "hunter"})
    assert redis_py.Redis.from_url(redis_url).zcard("retry") == 1


# --- back to the page


@pytest.mark.parametrize(
    ("told", "to"),
    [
        ("/queues?x=1", "/queues?x=1"), ("//evil.example", "/"), ("https://evil.example", "/"), ("/\\evil", "/"),
        ("/a\r\nSet-Cookie: x", "/"), ("javascript:alert(1)", "/"), ("", "/"), ("/é日", "/"),
    ],
)  # fmt: skip
def test_after_a_change_the_browser_stays_on_this_site(client: Client, told: str, to: str) -> None:
    assert client.post("/queue/pause", {"name": "mail", "_back": told}).location == to


def test_what_was_done_is_told_once(client: Client) -> None:
    client.post("/queue/pause", {"name": "mail"})
    assert "queue mail is paused" in client.get("/queues").text
    assert "queue mail is paused" not in client.get("/queues").text


def test_names_of_files_that_strangers_ask_for_are_not_kept() -> None:
    client = Client(application(None))
    before = sum(one.currsize for one in CACHES())
    for number in range(50):
        assert client.get(f"/static/none-{number}.css").status == 404
    assert sum(one.currsize for one in CACHES()) <= before + 1


def test_a_change_asks_first_where_it_cannot_be_taken_back(app: App, client: Client) -> None:
    asked = client.post("/queue/clear", {"name": "mail"})
    assert "Delete all of 1 job in queue mail for good?" in asked.text
    assert queue(app).size == 1
    assert client.sure("/queue/clear", {"name": "mail"}).status == 303
    assert queue(app) is None


def test_a_body_that_is_too_large_or_broken_is_refused(client: Client) -> None:
    assert client.ask("POST", "/queue/pause", b"x", {"Content_Length": "3000000"}).status == 413
    assert client.ask("POST", "/api/queue/pause", b"{", {"Content_Type": "application/json"}).status == 400
    assert client.ask("POST", "/api/queue/pause", b"[" * 100_000, {"Content_Type": "application/json"}).status == 400
    assert client.ask("POST", "/queue/pause", b"&".join([b"a=1"] * 3000), {}).status == 400


def test_counts_are_shared_by_pages_for_a_moment_and_new_after_a_change(app: App, client: Client) -> None:
    assert client.get("/api/queues").json["queues"][0]["size"] == 1
    app.inspector.pause("mail")
    client.post("/queue/resume", {"name": "mail"})
    app.enqueue("mail", "MailJob", ["bob"])
    until = time.monotonic() + 20
    while client.get("/api/queues").json["queues"][0]["size"] != 2:
        assert time.monotonic() < until
