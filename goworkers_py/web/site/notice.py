"""A sentence about what was done, kept in a cookie for the next page."""

from __future__ import annotations

import base64
import binascii

from goworkers_py.web.http.request import Request
from goworkers_py.web.http.response import Header

NAME = "pyworkers-said"
LONGEST = 1_000


def cookie(request: Request, said: str) -> Header:
    value = base64.urlsafe_b64encode(said[:LONGEST].encode("utf-8", "replace")).decode()
    life = "Max-Age=60" if said else "Max-Age=0"
    secure = "; Secure" if request.is_secure else ""
    return "Set-Cookie", f"{NAME}={value}; Path=/; {life}; HttpOnly; SameSite=Strict{secure}"


def said_in(request: Request) -> str:
    try:
        return base64.urlsafe_b64decode(request.cookies.get(NAME, "")).decode("utf-8", "replace")[:LONGEST]
    except (binascii.Error, ValueError):
        return ""
