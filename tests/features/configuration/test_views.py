"""The pages of central configurations."""

from __future__ import annotations

from wsgi_client import Client

from goworkers_py import App
from goworkers_py.features.configuration.views import masked
from goworkers_py.web.site.hiding import MASK, Hiding

TEXT = """[queue:billing]
concurrency = 5

[web]
# access_token = s3cr3t-old
title = Billing
broker_password_file = /run/s3cr3t
    and s3cr3t

    more s3cr3t
port = 8080
"""


def test_a_configuration_is_shown_with_what_changed_and_without_secrets() -> None:
    hiding = Hiding()
    assert masked(TEXT, hiding).splitlines() == [
        "[queue:billing]", "concurrency = 5", "", "[web]", f"# access_token = {MASK}", "title = Billing",
        f"broker_password_file = {MASK}", "port = 8080",
    ]  # fmt: skip
    assert masked("token: s3cr3t\n[a:token]\nx = 1", hiding) == f"token: {MASK}\n[a:token]\nx = 1"


def test_a_configuration_of_blanks_is_masked_at_once() -> None:
    text = "a" + 300_000 * " " + "b"
    assert masked(text, Hiding()) == text


def test_versions_of_a_configuration_are_listed_and_one_of_them_is_shown(app: App, client: Client) -> None:
    for concurrency in (5, 8, 9):
        app.inspector.configurations.push("billing", f"[queue:billing]\nconcurrency = {concurrency}\n")
    assert [(one["name"], one["version"]) for one in client.get("/api/configurations").json["configurations"]] == [
        ("billing", 3)
    ]
    shown = client.get("/api/configuration?name=billing&version=2").json
    assert [one["version"] for one in shown["versions"]] == [3, 2, 1]
    assert shown["diff"][-2:] == ["-concurrency = 5", "+concurrency = 8"]
    assert "Go back to this version" in client.get("/configuration?name=billing&version=2").text
    assert "Go back to this version" not in client.get("/configuration?name=billing").text
    for wrong in ("name=other", "name=billing&version=7"):
        assert client.get(f"/configuration?{wrong}").status == 404
    assert client.sure("/configuration/rollback", {"name": "billing", "version": "9"}).status == 400


def test_texts_of_a_stranger_are_shown_without_a_long_comparison_and_not_rolled_back_to(
    app: App, client: Client
) -> None:
    stored = app.inspector.configurations._stored  # as everybody may who may write to Redis
    stored.push("billing", "\n".join(str(number % 150) for number in range(70_000)), "me")
    stored.push("billing", "\n".join(str(number % 151) for number in range(70_000)), "me")
    stored.push("billing", "[pyworkers]\nrequire = evil\n", "me")
    stored.push("billing", "[queue:a]\n", "me")
    shown = client.get("/api/configuration?name=billing&version=2").json
    assert shown["diff"] == ["not compared, because a text has more than 5,000 lines"]
    refused = client.sure("/configuration/rollback", {"name": "billing", "version": "3"})
    assert refused.status == 400
    assert "line 2 [pyworkers] require: local" in refused.text
    assert app.inspector.configurations.current("billing").version == 4
