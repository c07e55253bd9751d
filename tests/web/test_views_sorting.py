"""Tables by any of their columns: whole ones, and lists of more jobs than one page sorts."""

from __future__ import annotations

import json
import math
import re
from html import unescape
from typing import Any

import pytest
import redis as redis_py
import web_scene
from web_scene import Scene
from wsgi_client import Client

from goworkers_py import App, EnqueueOptions
from goworkers_py.features import FEATURES
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.site.sorting import SORT, Columns
from goworkers_py.web.views import job_lists
from goworkers_py.web.views.all_views import TABLE
from goworkers_py.web.views.job_sorting import ENDED_JOBS, MOST_SORTED, PLACED_JOBS, RUNNING_JOBS

DUE = 2_000_000_000.0

# By path, the field of the JSON answer that has the rows of the table.
ROWS = {
    "/queues": "queues", "/failures": "failures", "/metrics": "classes", "/processes": "processes", "/limits": "limits",
    "/locks": "locks", "/groups": "groups", "/periodic": "jobs", "/batches": "batches", "/chains": "chains",
    "/partitions": "rows", "/configurations": "configurations",
}  # fmt: skip


@pytest.fixture
def scene(app: App, redis: redis_py.Redis) -> Scene:
    return web_scene.restored(web_scene.fill_all, app, redis)


def choices(path: str) -> list[str]:
    return next(list(param.choices) for param in TABLE.views[path].query if param.name == SORT)


def headers(page: str) -> dict[str, tuple[str, str]]:
    """By the text of a header: its `aria-sort`, and where its link leads."""
    found = re.findall(r'<th scope="col" class="sort[^"]*"(?: aria-sort="(\w+)")?><a href="([^"]*)">([^<]*)</a>', page)
    return {label: (direction, unescape(link)) for direction, link, label in found}


def seen(page: str) -> str:
    return " ".join(unescape(re.sub("<[^>]*>", " ", page)).split())


# --- columns


def test_rows_without_a_value_are_last_in_both_directions_and_equal_ones_stay_as_they_came() -> None:
    rows = [{"n": n, "place": place} for place, n in enumerate([2, None, 1, math.nan, 2, 0])]
    table = Columns("n")
    assert [row["place"] for row in table.sorted(rows, "n")] == [5, 2, 0, 4, 1, 3]
    assert [row["place"] for row in table.sorted(rows, "-n")] == [0, 4, 2, 5, 1, 3]
    assert table.sorted(rows, "") == rows


def test_texts_are_sorted_without_regard_to_case_and_empty_ones_are_last() -> None:
    rows = [{"name": name} for name in ("b", "", "A", "C")]
    assert [row["name"] for row in Columns("name").sorted(rows, "name")] == ["A", "b", "C", ""]
    assert [row["name"] for row in Columns("name").sorted(rows, "-name")] == ["C", "b", "A", ""]


def test_a_column_of_another_table_is_refused_with_the_names_of_the_columns() -> None:
    with pytest.raises(Refused, match="the columns name, size, and not 'dead'"):
        Columns("name", "size").sorted([], "-dead")


# --- whole tables


def test_every_table_that_is_held_as_a_whole_can_be_sorted() -> None:
    """A page of a feature may have its tests in the folder of the feature instead."""
    sortable = {path for path, view in TABLE.views.items() if any(param.name == SORT for param in view.query)}
    of_features = {view.path for feature in FEATURES if (pages := feature.pages()) for view in pages.views}
    assert {*ROWS, "/jobs"} <= sortable <= {*ROWS, "/jobs"} | of_features


@pytest.mark.parametrize("path", ROWS)
def test_a_table_comes_in_the_order_of_each_column(client: Client, scene: Scene, path: str) -> None:
    compared = 0
    for choice in choices(path):
        rows = client.get(f"/api{path}?sort={choice}").json[ROWS[path]]
        assert rows, path
        name, down = choice.removeprefix("-"), choice.startswith("-")
        told = [{**row, **row.get("process", {})} for row in rows]
        if name not in told[0] or isinstance(told[0][name], list):
            continue  # made of other fields
        values = [row[name].lower() if isinstance(row[name], str) else row[name] for row in told]
        known = [value for value in values if value not in (None, "")]
        if name not in ("latency_s", "rss_kb"):  # these are shown as nothing when they are 0
            assert values[: len(known)] == sorted(known, reverse=down), choice
        compared += len({str(value) for value in known}) > 1
    assert compared or len(rows) < 2
    default = client.get(f"/api{path}").json[ROWS[path]]
    assert sorted(map(str, map(sorted, default))) == sorted(map(str, map(sorted, rows)))


@pytest.mark.parametrize("path", ROWS)
def test_each_header_says_its_order_and_its_link_leads_through_the_orders(
    client: Client, scene: Scene, path: str
) -> None:
    first = headers(client.get(f"{path}?partition=&limit=77").text)
    assert len(first) > 2
    assert sum(direction != "" for direction, _ in first.values()) <= 1
    columns = set()
    for label, (_, link) in first.items():
        assert "limit=77" in link
        page = client.get(link)
        assert page.status == 200, link
        directions = {other: direction for other, (direction, _) in headers(page.text).items() if direction}
        chosen = re.search(r"sort=(-?)(\w+)", link)
        assert chosen is not None
        assert directions == {label: "descending" if chosen[1] else "ascending"}
        assert f'hx-get="{link.replace("&", "&amp;")}"' in page.text  # live updates keep it
        second = headers(page.text)[label][1]
        turned = chosen[2] if chosen[1] else f"-{chosen[2]}"
        # The other direction, or no parameter where that is the table's own order.
        assert re.findall(r"sort=([\w-]+)", second) in ([turned], [])
        columns.add(chosen[2])
    assert columns <= set(choices(path))


def test_a_third_click_goes_back_to_the_order_of_the_table(client: Client, scene: Scene) -> None:
    link = "/queues"
    orders = []
    for _ in range(3):
        link = headers(client.get(link).text)["Waiting"][1]
        orders.append(link)
    assert orders == ["/queues?sort=-size", "/queues?sort=size", "/queues"]


def test_largest_queues_come_first_and_the_default_order_stays(client: Client, scene: Scene) -> None:
    sizes = [row["size"] for row in client.get("/api/queues?sort=-size").json["queues"]]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 3
    names = [row["name"] for row in client.get("/api/queues").json["queues"]]
    assert names == sorted(names)
    assert headers(client.get("/queues").text)["Queue"][0] == "ascending"


def test_a_state_that_needs_people_comes_before_none(client: Client, scene: Scene) -> None:
    rows = client.get("/api/queues?sort=state").json["queues"]
    assert [row["name"] for row in rows][:2] == ["imports", "billing"]


@pytest.mark.parametrize("path", [*ROWS, "/jobs"])
def test_an_unknown_column_is_refused_and_the_columns_are_named(client: Client, path: str) -> None:
    for wrong in ("nosuch", "-", "--name", "<b>"):
        answer = client.get(f"/api{path}?sort={wrong}")
        assert answer.status == 400
        assert all(choice in answer.json["error"] for choice in choices(path))
        assert client.get(f"{path}?sort={wrong}").status == 400


def test_the_processes_that_are_shown_are_the_first_of_the_order(client: Client, scene: Scene) -> None:
    whole = client.get("/api/processes?sort=-rss_kb").json["processes"]
    (largest,) = client.get("/api/processes?sort=-rss_kb&limit=1").json["processes"]
    assert largest["process"]["identity"] == whole[0]["process"]["identity"]
    assert largest["process"]["rss_kb"] == max(one["process"]["rss_kb"] for one in whole)


def test_a_list_that_was_cut_says_among_which_entries_it_was_sorted(
    client: Client, scene: Scene, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goworkers_py.features.batches.views.MOST", 1)
    assert "The 1 that changed last." in seen(client.get("/batches").text)
    assert "Sorted among the 1 that changed last." in seen(client.get("/batches?sort=name").text)


def test_the_filter_and_the_tabs_of_failures_keep_the_order(client: Client, scene: Scene) -> None:
    page = client.get("/failures?sort=-newest").text
    assert '<input type="hidden" name="sort" value="-newest">' in page
    assert "/failures?state=dead&amp;sort=-newest" in page


# --- jobs


def failing(number: int, **fields: Any) -> str:
    told = {
        "class": f"C{number % 7}", "args": [number], "jid": f"j{number:05}", "queue": f"q{number * 5 % 11}",
        "created_at": 1_700_000_000.0 + number * 37 % 1_000, "enqueued_at": 1_700_000_000.0 + number * 37 % 1_000,
        "error_class": f"E{number * 3 % 5}", "error_message": f"m{number % 3}", "retry_count": number * 7 % 25,
    }  # fmt: skip
    return json.dumps(told | fields)


def fill_retries(redis: redis_py.Redis, count: int) -> None:
    for start in range(0, count, 1_000):
        redis.zadd("retry", {failing(n): DUE + n for n in range(start, min(count, start + 1_000))})


def all_pages(client: Client, address: str, field: str = "jobs") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        told = client.get(f"{address}&after={after}").json
        found += told[field]
        after = told["next"]
        if not after:
            return found


VALUES = {
    "job_class": lambda n: f"C{n % 7}", "queue": lambda n: f"q{n * 5 % 11}", "error": lambda n: (n * 3 % 5, n % 3),
    "retry_count": lambda n: n * 7 % 25, "enqueued_at": lambda n: n * 37 % 1_000, "jid": lambda n: n,
}  # fmt: skip


@pytest.mark.parametrize("column", VALUES)
@pytest.mark.parametrize("down", [False, True])
def test_the_first_thousand_are_sorted_and_paged_through_once_each(
    client: Client, redis: redis_py.Redis, column: str, down: bool
) -> None:
    fill_retries(redis, 1_250)
    found = all_pages(client, f"/api/jobs?state=retry&limit=300&sort={'-' if down else ''}{column}")
    expected = sorted(range(MOST_SORTED), key=VALUES[column], reverse=down)
    assert [row["jid"] for row in found] == [f"j{n:05}" for n in expected]


def test_a_page_says_among_which_jobs_it_has_sorted_and_looks_at_no_others(
    client: Client, redis: redis_py.Redis
) -> None:
    fill_retries(redis, 5_000)
    told = client.get("/api/jobs?state=retry&sort=job_class").json
    assert (told["sorted_among"], told["looked_at"], told["total"]) == (1_000, 1_000, 5_000)
    first, last = "Sorted among the 1,000 that are due first;", "Sorted among the 1,000 that are due last;"
    assert f"{first} filter to see others." in seen(client.get("/jobs?state=retry&sort=job_class").text)
    assert last in seen(client.get("/jobs?state=retry&sort=job_class&order=newest").text)
    (row, *_) = client.get("/api/jobs?state=retry&sort=-jid&order=newest").json["jobs"]
    assert row["jid"] == "j04999"


def test_each_state_says_in_its_words_which_jobs_were_sorted(app: App, client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("dead", {failing(n): 1_700_000_000.0 + n for n in range(1_001)})
    redis.zadd("schedule", {failing(n): DUE + n for n in range(1_001)})
    redis.sadd("queues", "q")
    redis.lpush("queue:q", *(failing(n) for n in range(1_001)))
    for state, words in (
        ("dead", "died last"),
        ("scheduled", "are due first"),
        ("waiting&queue=q", "were pushed last"),
    ):
        page = seen(client.get(f"/jobs?state={state}&sort=job_class").text)
        assert f"Sorted among the 1,000 that {words};" in page
    assert "that died first;" in seen(client.get("/jobs?state=dead&sort=job_class&order=oldest").text)
    # The dead job that died first, and the job that was pushed first, are not among them.
    for address in ("/api/jobs?state=dead", "/api/jobs?state=waiting&queue=q"):
        assert "j00000" not in {row["jid"] for row in all_pages(client, f"{address}&sort=jid&limit=500")}


def test_a_filter_says_how_many_fit_of_how_many_that_were_looked_at(
    client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "MOST_LOOKED_AT", 1_400)
    fill_retries(redis, 2_000)
    address = "/jobs?state=retry&class=C3&sort=-retry_count"
    told = client.get(f"/api{address}").json
    assert (told["sorted_among"], told["looked_at"]) == (200, 1_400)
    assert "Sorted among the 200 that fit, of the 1,400 that are due first." in seen(client.get(address).text)
    assert {row["job_class"] for row in told["jobs"]} == {"C3"}


@pytest.mark.parametrize("count", [40, MOST_SORTED])
def test_a_list_that_was_sorted_as_a_whole_says_nothing(client: Client, redis: redis_py.Redis, count: int) -> None:
    fill_retries(redis, count)
    assert client.get("/api/jobs?state=retry&sort=queue").json["sorted_among"] == 0
    assert "Sorted among" not in client.get("/jobs?state=retry&sort=queue").text


def test_by_time_all_jobs_are_in_order_however_many_there_are(client: Client, redis: redis_py.Redis) -> None:
    fill_retries(redis, 1_250)
    oldest = all_pages(client, "/api/jobs?state=retry&limit=500&sort=at&order=newest")
    assert [row["jid"] for row in oldest] == [f"j{n:05}" for n in range(1_250)]
    newest = all_pages(client, "/api/jobs?state=retry&limit=500&sort=-at")
    assert newest == oldest[::-1]
    assert "Sorted among" not in client.get("/jobs?state=retry&sort=-at").text


def test_the_time_of_a_state_is_its_order_until_another_is_chosen(client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("retry", {failing(n): DUE + n for n in range(3)})
    redis.zadd("dead", {failing(n): 1_700_000_000.0 + n for n in range(3)})
    retries, dead = (headers(client.get(f"/jobs?state={state}").text) for state in ("retry", "dead"))
    assert retries["Next try"] == ("ascending", "/jobs?state=retry&sort=-at")
    assert dead["Died"] == ("descending", "/jobs?state=dead&sort=at")
    assert headers(client.get("/jobs?state=dead&sort=at").text)["Died"] == ("ascending", "/jobs?state=dead")
    kept = headers(client.get("/jobs?state=retry&class=C1&after=&order=newest").text)["Queue"][1]
    assert kept == "/jobs?state=retry&class=C1&order=newest&sort=queue"


def test_another_order_begins_with_the_first_page(client: Client, redis: redis_py.Redis) -> None:
    fill_retries(redis, 100)
    page = client.get("/jobs?state=retry&sort=queue&limit=10&after=50").text
    assert "after=" not in headers(page)["Class"][1]
    assert "sort=queue" in re.findall(r'rel="next" href="([^"]*)"', page)[0]


@pytest.mark.parametrize("state", ["retry", "running", "cancelled"])
def test_an_after_that_no_page_has_given_is_refused(client: Client, scene: Scene, state: str) -> None:
    for wrong in ("x", "-5", "1.5", "9" * 12, "٣"):
        assert client.get(f"/api/jobs?state={state}&sort=queue&after={wrong}").status == 400
    assert client.get(f"/api/jobs?state={state}&sort=queue&limit=0").status == 400


def test_a_column_that_the_state_lacks_is_refused_and_its_columns_are_named(client: Client, scene: Scene) -> None:
    answer = client.get("/api/jobs?state=retry&sort=since")
    assert answer.status == 400
    assert "job_class, queue, error, retry_count, enqueued_at" in answer.json["error"]
    assert client.get("/api/jobs?state=running&sort=retry_count").status == 400


@pytest.mark.parametrize(
    ("state", "table"),
    [
        ("retry", PLACED_JOBS), ("dead", PLACED_JOBS), ("scheduled", PLACED_JOBS), ("waiting", PLACED_JOBS),
        ("limited", PLACED_JOBS), ("running", RUNNING_JOBS), ("cancelled", ENDED_JOBS),
    ],
)  # fmt: skip
def test_jobs_of_each_state_can_be_sorted_by_each_column(
    client: Client, scene: Scene, state: str, table: Columns
) -> None:
    client.api("/api/job/cancel", {"jid": scene.tracked})
    followed = set()  # the pages of all columns lead to the same addresses
    for choice in table.choices:
        page = client.get(f"/jobs?state={state}&sort={choice}")
        assert page.status == 200, page.text
        for label, (_, link) in headers(page.text).items():
            if link not in followed:
                followed.add(link)
                assert client.get(link).status == 200, (label, link)


def test_running_jobs_are_sorted_as_a_whole(client: Client, scene: Scene) -> None:
    found = all_pages(client, "/api/jobs?state=running&sort=-since&limit=2", "running")
    times = [one["since"] for one in found]
    assert times == sorted(times, reverse=True)
    assert len(times) == client.get("/api/jobs?state=running").json["total"] > 2
    classes = [
        one["row"]["job_class"].lower() for one in client.get("/api/jobs?state=running&sort=job_class").json["running"]
    ]
    assert classes == sorted(classes)


def test_ended_jobs_are_sorted_among_those_that_ended_last(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "MOST_SORTED", 20)
    for number in range(25):
        jid = app.enqueue_with_options("q", f"C{number % 4}", [number], EnqueueOptions(track=True))
        assert jid is not None
        app.inspector.cancel(jid, timeout=0)
    address = "/jobs?state=cancelled&sort=-job_class&limit=8"
    found = all_pages(client, f"/api{address}", "ended")
    classes = [one["job_class"] for one in found]
    assert classes == sorted(classes, reverse=True)
    assert len({one["jid"] for one in found}) == len(found) == 20
    assert "Sorted among the 20 that ended last;" in seen(client.get(address).text)


def test_payloads_of_any_kind_can_be_sorted(client: Client, redis: redis_py.Redis) -> None:
    odd = [
        "no json", "[]", "{}", '{"class":7,"queue":[],"jid":{},"error_class":9,"retry_count":"x","enqueued_at":"y"}',
        failing(1, retry_count=2**70, enqueued_at=1e300), failing(2, error_class=None, queue=None),
    ]  # fmt: skip
    redis.zadd("retry", {raw: DUE + n for n, raw in enumerate(odd)})
    for choice in PLACED_JOBS.choices:
        assert len(client.get(f"/api/jobs?state=retry&sort={choice}").json["jobs"]) == len(odd)
        assert client.get(f"/jobs?state=retry&sort={choice}").status == 200


def test_the_filter_form_of_jobs_keeps_the_order(client: Client, redis: redis_py.Redis) -> None:
    fill_retries(redis, 3)
    page = client.get("/jobs?state=retry&sort=-queue&class=C1").text
    assert '<input type="hidden" name="sort" value="-queue">' in page


def test_a_column_that_narrow_screens_hide_is_shown_while_it_is_sorted_by(
    client: Client, redis: redis_py.Redis
) -> None:
    fill_retries(redis, 3)
    assert 'class="sort wide"' in client.get("/jobs?state=retry").text
    assert "wide" not in client.get("/jobs?state=retry&sort=-enqueued_at").text
