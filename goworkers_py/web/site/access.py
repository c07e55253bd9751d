"""Who may see the pages, and who may change something. Without an answer to that, nobody may."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from goworkers_py.core.values import dataclass
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.request import Environ
from goworkers_py.web.http.response import Response

log = logging.getLogger(__name__)

# Each role may do what those before it may.
VIEW, PUSH, ACT = ROLES = ("view", "push", "act")
Authorize = Callable[[Environ, str], bool]


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a request: `Grant("ada", "act")`. The roles are view, push and act."""

    who: str  # for the audit
    role: str  # empty: may see nothing
    by_token: bool = False  # which no browser sends by itself, so that no other site can use it
    ends: bool = False  # a session, which its browser can end

    def may(self, action: str) -> bool:
        """`action` is the role that it needs."""
        return bool(self.role) and ROLES.index(self.role) >= ROLES.index(action)


class Access(Protocol):
    """Decides for each request who sends it and what it may do. Many threads call it at once."""

    def decide(self, environ: Environ) -> Grant | Response:
        """A Response answers the request: a login begins or ends. Raises Refused for somebody who may see nothing."""


class Closed:
    """Of an application that was told nothing."""

    def decide(self, environ: Environ) -> Grant:
        raise Refused(
            403,
            "these pages are closed: give application() a function authorize(environ, action) that says who may "
            "`view` and who may `act`",
        )


class ByFunction:
    """The host application's own login says who may."""

    def __init__(self, authorize: Authorize, asks_push: bool = False) -> None:
        """A function that knows `view` and `act` alone is not asked for `push`: one that says yes to whatever is not
        `act` would let all push who may look."""
        self._authorize = authorize
        self._roles = ROLES if asks_push else (VIEW, ACT)

    def decide(self, environ: Environ) -> Grant:
        try:
            may = [action for action in self._roles if self._authorize(environ, action)]
        except Refused:
            raise
        except Exception:
            log.exception("authorize() of the pages has failed, so the pages are closed to this request")
            raise Refused(403, "who you are could not be found out: the log of this application says why") from None
        # Who may not look may do nothing. The function may have set REMOTE_USER.
        return Grant(str(environ.get("REMOTE_USER") or "somebody"), may[-1] if VIEW in may else "")
