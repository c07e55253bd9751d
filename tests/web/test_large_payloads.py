"""Pages stay small whatever payloads are large: lists read the small fields of these, and a page has few bytes."""

from __future__ import annotations

import json
import tracemalloc
from urllib.parse import quote

import pytest
import redis as redis_py
from apps import own_app
from waiting import eventually
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application
from goworkers_py.web.http import budget
from goworkers_py.web.views import job_finding, rows

BYTES = 1_000_001


def large(jid: str, size: int, **more: object) -> str:
    told = {"class": "Import", "queue": "imports", "args": [size * "x"], "jid": jid, "error_class": "Timeout"}
    return json.dumps({**told, "error_message": "too slow", "retry_count": 3, **more})


def all_pages(client: Client, path: str) -> list[list[str]]:
    found, after = [], ""
    while True:
        told = client.get(f"/api{path}&after={quote(after)}").json
        found.append([row["jid"] for row in told["jobs"]])
        if not (after := told["next"]):
            return found


def test_a_list_of_large_jobs_is_small_and_tells_what_they_are(client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("dead", {large(f"{number:024x}", BYTES): float(number) for number in range(12)})
    answer = client.get("/api/jobs?state=dead&order=oldest")
    assert len(answer.body) < 50_000
    assert [row["jid"] for row in answer.json["jobs"]] == [f"{number:024x}" for number in range(12)]
    row = answer.json["jobs"][0]
    assert (row["job_class"], row["queue"], row["error_class"], row["retry_count"]) == (
        "Import",
        "imports",
        "Timeout",
        3,
    )
    assert "too large" in row["args"][0]
    assert "too large" in client.get("/jobs?state=dead").text
    (failure,) = client.get("/api/failures").json["failures"]
    assert (failure["job_class"], failure["error_class"], failure["dead"]) == ("Import", "Timeout", 12)


def test_a_large_job_has_a_page_and_buttons_and_no_file(client: Client, redis: redis_py.Redis) -> None:
    jid = 24 * "a"
    redis.zadd("dead", {large(jid, BYTES): 5.0, large(24 * "b", BYTES): 5.0})
    place = f"jid={jid}&state=dead&key={quote(next(key_of(client, jid)))}"
    page = client.get(f"/job?{place}")
    assert (page.status, "too many for a page" in page.text, jid in page.text) == (200, True, True)
    assert client.get(f"/job?jid={jid}").text.count("too many for a page") == 1
    assert "pyworkers dead show JID" in page.text
    assert "pyworkers job again JID" in page.text
    assert "/job/again" not in page.text, "a button that is always refused"
    assert client.get(f"/job/raw?{place}").status == 413
    assert client.post("/job/again", {"jid": jid, "state": "dead"}).status == 413
    client.sure("/jobs/delete", {"state": "dead", "job": next(key_of(client, jid))})
    (left,) = redis.zrange("dead", 0, -1)
    assert 24 * b"b" in left


def key_of(client: Client, jid: str):  # type: ignore[no-untyped-def]
    return (row["key"] for row in client.get("/api/jobs?state=dead").json["jobs"] if row["jid"] == jid)


@pytest.mark.parametrize("place", ["dead", "waiting"])
def test_a_job_of_less_than_a_megabyte_is_whole_on_its_page(app: App, redis: redis_py.Redis, place: str) -> None:
    client = Client(application(app, authorize=lambda environ, action: True))
    if place == "dead":
        redis.zadd("dead", {large(24 * "c", 300_000): 5.0})
    else:
        redis.sadd("queues", "imports")
        redis.lpush("queue:imports", large(24 * "c", 300_000), large(24 * "d", 300_000))
    (row,) = [
        row for row in client.get(f"/api/jobs?state={place}&queue=imports").json["jobs"] if row["jid"] == 24 * "c"
    ]
    where = f"jid={row['jid']}&state={place}&queue=imports&key={quote(row['key'])}"
    shown = client.get(f"/api/job?{where}").json
    assert (shown["args"], shown["elsewhere"]) == ([300_000 * "x"], [])
    assert len(client.get(f"/job/raw?{where}").body) > 300_000
    assert (
        client.post("/job/again", {"jid": row["jid"], "state": place, "queue": "imports", "to": "again"}).status == 303
    )
    assert len(redis.lindex("queue:again", 0) or b"") > 300_000


@pytest.mark.parametrize("state", ["dead", "waiting", "limited"])
def test_a_page_ends_early_and_the_next_one_goes_on(redis_url: str, redis: redis_py.Redis, state: str) -> None:
    jids = [f"{number:024x}" for number in range(30)]
    header = '{"v":1,"queue":"q","at":5.0}\n' if state == "limited" else ""
    for number, jid in enumerate(jids):
        payload = header + large(jid, 150_000 if number % 3 == 0 else 90_000)
        if state == "dead":
            redis.zadd("dead", {payload: 7.0})
        else:
            redis.sadd("queues" if state == "waiting" else "pyworkers:lines", "q")
            redis.lpush("queue:q" if state == "waiting" else "pyworkers:line:q", payload)
    with own_app(redis_url) as app:
        client = Client(application(app, authorize=lambda environ, action: True))
        pages = all_pages(client, f"/jobs?state={state}&queue=q" if state == "waiting" else f"/jobs?state={state}")
    assert len(pages) > 1
    assert sorted(jid for page in pages for jid in page) == jids


def test_one_job_of_30_megabytes_takes_little_memory(client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("dead", {'{"class":"C","jid":"j","args":[' + 10_000_000 * "[]," + "1]}": 5.0})
    client.get("/jobs?state=dead")
    tracemalloc.start()
    try:
        for path in ("/jobs?state=dead", "/job?jid=j&state=dead", "/failures", "/find?q=j"):
            assert client.get(path).status in (200, 303)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_jobs_of_many_small_values_have_a_list_and_pages(client: Client, redis: redis_py.Redis) -> None:
    def job(jid: str, values: int) -> str:
        return f'{{"class":"C","jid":"{jid}","args":[{(values - 1) * "1,"}1]}}'

    redis.zadd("dead", {job(jid, 45_000): 5.0 for jid in "abcdefghijkl"})
    redis.zadd("dead", {job("most", 490_000): 6.0})
    assert client.get("/jobs?state=dead").status == 200
    assert client.get("/job?jid=most&state=dead").status == 200


def test_few_requests_read_a_job_and_few_searches_a_place_at_once(
    client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.zadd("dead", {large("j", 9): 5.0})
    monkeypatch.setattr(budget, "PATIENCE_S", 0.01)
    for readers, path in ((rows.READERS, "/job?jid=j&state=dead"), (job_finding.SEARCHERS, "/job?jid=k")):
        with readers.lent(2):
            assert client.get(f"/api{path}").status == 503
        assert eventually(lambda path=path: client.get(f"/api{path}").status == 200)  # type: ignore[misc]


def test_another_site_may_only_link_to_the_pages(client: Client) -> None:
    other = {"Sec_Fetch_Site": "cross-site"}
    linked = {**other, "Sec_Fetch_Mode": "navigate"}
    assert client.get("/queues", **linked, Sec_Fetch_Dest="document").status == 200
    assert client.get("/queues", **linked, Sec_Fetch_Dest="iframe").status == 403
    assert client.get("/api/queues", **other, Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="image").status == 403
    assert client.get("/queues", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors").status == 200
