"""Whose word about the client of a request counts."""

from __future__ import annotations

from typing import Any

import pytest

from goworkers_py.config.parsers import networks
from goworkers_py.web.site.trusted_proxies import TrustedProxies

OURS = ("10.0.0.0/8", "2001:db8::/32")


def seen(sender: str, **headers: str) -> dict[str, Any]:
    """What the application sees of a request."""
    found: list[dict[str, Any]] = []

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        found.append(environ)
        return []

    told = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    environ = {"REMOTE_ADDR": sender, "HTTP_HOST": "inside:8080", "wsgi.url_scheme": "http", **told}
    TrustedProxies(application, OURS)(environ, None)
    return found[0]


@pytest.mark.parametrize(
    ("sender", "forwarded", "client"),
    [
        ("10.0.0.1", "192.0.2.1", "192.0.2.1"), ("10.0.0.1", "6.6.6.6, 192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", "6.6.6.6, 192.0.2.1, 10.0.0.2", "192.0.2.1"), ("10.0.0.1", "10.0.0.3,10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "", "10.0.0.1"), ("10.0.0.1", "192.0.2.1, nonsense", "10.0.0.1"),
        ("10.0.0.1", "192.0.2.1, , 10.0.0.2", "192.0.2.1"), ("10.0.0.1", "192.0.2.1:5000", "192.0.2.1"),
        ("2001:db8::1", "[2001:db9::1]:443", "2001:db9::1"), ("::ffff:10.0.0.1", "2001:db9::1", "2001:db9::1"),
        ("192.0.2.9", "10.0.0.2", "192.0.2.9"), ("", "192.0.2.1", ""),
    ],
)  # fmt: skip
def test_the_client_is_the_last_one_that_no_proxy_of_ours_is(sender: str, forwarded: str, client: str) -> None:
    assert seen(sender, x_forwarded_for=forwarded)["REMOTE_ADDR"] == client


def test_a_proxy_of_ours_tells_the_name_and_the_scheme_and_leaves_no_trace() -> None:
    found = seen("10.0.0.1", x_forwarded_for="192.0.2.1", x_forwarded_host="jobs.example", x_forwarded_proto="https",
                 via="1.1 x", forwarded="for=6.6.6.6", x_real_ip="6.6.6.6")  # fmt: skip
    assert found == {"REMOTE_ADDR": "192.0.2.1", "HTTP_HOST": "jobs.example", "wsgi.url_scheme": "https"}


def test_of_many_values_that_of_the_outermost_proxy_of_ours_counts() -> None:
    found = seen("10.0.0.1", x_forwarded_for="6.6.6.6, 192.0.2.1, 10.0.0.2", x_forwarded_proto="x, https, http",
                 x_forwarded_host="evil.example, jobs.example, inside")  # fmt: skip
    assert (found["HTTP_HOST"], found["wsgi.url_scheme"]) == ("jobs.example", "https")
    found = seen("10.0.0.1", x_forwarded_for="192.0.2.1", x_forwarded_host="evil.example, jobs.example")
    assert found["HTTP_HOST"] == "jobs.example"


def test_others_are_not_believed() -> None:
    found = seen("192.0.2.9", x_forwarded_for="10.0.0.2", x_forwarded_host="jobs.example", x_forwarded_proto="https")
    assert (found["HTTP_HOST"], found["wsgi.url_scheme"]) == ("inside:8080", "http")
    assert not {"HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PROTO"} & found.keys()
    assert "HTTP_X_FORWARDED_FOR" in found  # so that pages for this machine refuse it


def test_networks_of_the_option_are_checked() -> None:
    assert networks("10.0.0.0/8, ::1") == ("10.0.0.0/8", "::1")
    with pytest.raises(ValueError, match="must be addresses and networks"):
        networks("10.0.0.1/8")
