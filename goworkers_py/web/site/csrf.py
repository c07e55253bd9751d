"""Keeps other sites from making changes with the rights of who looks at them in the same browser.

A form carries the token that a cookie of ours holds; another site can send the cookie along, and cannot read it. The
cookie is not sent with requests of other sites anyway (SameSite), and the headers by which a browser says which site a
request comes from are checked first. A token of the access file is sent by no browser on its own.
"""

from __future__ import annotations

import hmac
import re
import secrets
from urllib.parse import urlsplit

from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.request import Request
from goworkers_py.web.http.response import Header

FIELD, HEADER = "_csrf", "X-CSRF-Token"
_TOKEN = re.compile(r"[0-9a-f]{32}").fullmatch


def cookie_name(request: Request) -> str:
    # With this prefix, no other host of the domain can set the cookie. It needs TLS.
    return "__Host-pyworkers-csrf" if request.is_secure else "pyworkers-csrf"


def token_of(request: Request) -> str:
    """The token in the cookie; empty where there is none."""
    token = request.cookies.get(cookie_name(request), "")
    return token if _TOKEN(token) else ""


def new_token() -> str:
    return secrets.token_hex(16)


def cookie(request: Request, token: str) -> Header:
    secure = "; Secure" if request.is_secure else ""
    return "Set-Cookie", f"{cookie_name(request)}={token}; Path=/; HttpOnly; SameSite=Strict{secure}"


def check(request: Request, by_token: bool) -> None:
    """Refuses a change that another site may have sent."""
    _check_site(request)
    if by_token or request.is_json:
        return  # another site cannot send this type of body without asking first, and is not answered
    token, given = token_of(request), str((request.form.get(FIELD) or [""])[-1]) or request.header(HEADER)
    if not token or not hmac.compare_digest(token.encode(), given.encode("utf-8", "replace")):
        raise Refused(403, "this form is from another time or place: open the page again, and repeat the change there")


def _check_site(request: Request) -> None:
    site = request.header("Sec-Fetch-Site")
    if site:
        if site not in ("same-origin", "none"):
            raise Refused(403, "another site has sent this change, so it was not made")
        return
    origin = request.header("Origin")
    # A browser tells no `Origin: null` for a page of ours. No other site can have it send X-Forwarded-Host.
    ours = {request.header("Host"), request.header("X-Forwarded-Host")} - {""}
    if origin and urlsplit(origin).netloc not in ours:
        raise Refused(403, f"the change comes from {origin} and not from this site, so it was not made")
