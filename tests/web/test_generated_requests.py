"""Requests that the OpenAPI file generates: whatever a parameter holds, the answer fits or says what is wrong."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web.site.openapi import document
from goworkers_py.web.views.all_views import TABLE

PATHS = document(TABLE)["paths"]
# As they stand in an address.
NO_NUMBERS = ("1e999", "nan", "-inf", "%D9%A2", "1_0", "+5", "1.5", "0x1f", "9" * 30, "9" * 5_000, "1,2", "true")
NEGATIVE = ("-1", "-9007199254740993")
SHOWN = ("%D9%A2", "9" * 5_000)
TEXTS = (
    "0", "%00", "%ED%A0%80", "-1-1", "1-0)", "(1", "x" * 9_999, "%F0%9F%98%80", "[]", "{}", "5-*", "..", "-", "+", "*",
    "", "5&NAME=-1", "-1&NAME=5",
)  # fmt: skip
WORD = "some"  # for a parameter that must be given
# Of a JSON body.
VALUES: tuple[Any, ...] = (
    None, True, -1, 2**70, 10**400, 1.5, 1e308, "", "-1", "\u0662", "1_0", "9" * 5_000, "\ud800", "\x00", "nan",
    [], [None], [[]], {}, {"a": {}}, ["x"] * 2_000, "[" * 5_000,
)  # fmt: skip


@pytest.fixture
def client(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    waits = ("cancelling.views.WAIT_S", "cancelling.views.LONGEST_WAIT_S", "calls.views.WAIT_S")
    for place in (*waits, "tracking.views.LONGEST_WAIT_S"):
        monkeypatch.setattr(f"goworkers_py.features.{place}", 0.01)
    return client


def fill(app: App) -> None:
    app.report("import", {"rows": 1})
    app.inspector.note_action("ada", "queue pause", "mail", 1)
    app.enqueue("mail", "Mail", [1])


@pytest.mark.parametrize("path", [path for path in TABLE.views if PATHS[path]["get"].get("parameters")])
def test_no_value_of_a_parameter_breaks_a_page_or_is_read_as_another(app: App, client: Client, path: str) -> None:
    fill(app)
    params = PATHS[path]["get"]["parameters"]
    needed = {one["name"]: WORD for one in params if one.get("required")}
    faults = {}
    for one in params:
        name, is_whole = quote(one["name"]), one["schema"].get("type") == "integer"
        rest = "".join(f"&{other}={word}" for other, word in needed.items() if other != one["name"])
        for wrong in (*NO_NUMBERS, *NEGATIVE, *TEXTS):
            is_refused = is_whole and wrong in NO_NUMBERS + NEGATIVE
            # All refusals of a number look alike on a page: two of them are looked at.
            places = (path, f"/api{path}") if not is_refused or wrong in SHOWN else (f"/api{path}",)
            for place in places:
                asked = f"{place}?{name}={wrong.replace('NAME', name)}{rest}"
                status = client.get(asked).status
                if status not in (200, 202, 400, 404) or (is_refused and status != 400):
                    faults[asked[:200]] = status
    assert faults == {}


@pytest.mark.parametrize("path", [*TABLE.actions])
def test_no_value_of_a_field_breaks_a_change(app: App, client: Client, path: str) -> None:
    fill(app)
    schema = PATHS[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    needed = dict.fromkeys(schema.get("required", ()), WORD)
    faults = {}
    for name in schema["properties"]:
        for wrong in VALUES:
            answer = client.api(f"/api{path}", {**needed, name: wrong})
            if answer.status not in (200, 202, 400, 404, 409, 429):
                faults[f"{name}: {wrong!r}"[:100]] = answer.status, answer.text[:200]
    assert faults == {}


def test_a_page_of_a_negative_number_of_things_is_not_all_but_the_last(client: Client) -> None:
    for path in ("/processes", "/reports", "/audit", "/jobs", "/queue?name=mail"):
        for limit in ("-1", "0"):
            assert client.get(f"/api{path}{'&' if '?' in path else '?'}limit={limit}").status == 400
