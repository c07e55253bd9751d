"""Puts the application together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from goworkers_py.core.default_app import default_app
from goworkers_py.web.site.access import Access, ByFunction, Closed
from goworkers_py.web.site.application import Application
from goworkers_py.web.site.host import Host
from goworkers_py.web.site.settings import PageSettings
from goworkers_py.web.views.all_views import TABLE


def assemble(
    app: Host | None,
    authorize: Callable[[dict[str, Any], str], bool] | None,
    title: str | None,
    read_only: bool | None,
    access: Access | None,
    asks_push: bool,
) -> Application:
    host: Host = default_app() if app is None else app
    decides = access or (ByFunction(authorize, asks_push) if authorize is not None else Closed())

    def settings() -> PageSettings:
        """The configuration may change after the application was made, by `configure`."""
        of_config = host.config.web
        return PageSettings(
            title or of_config.title or "pyworkers",
            of_config.read_only if read_only is None else read_only,
            of_config.hide,
        )

    return Application(host, TABLE, lambda: decides, settings)
