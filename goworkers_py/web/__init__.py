"""The HTTP port: probes, Prometheus, go-workers' figures; and the pages, in which people see and steer the fleet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goworkers_py.web.site.access import Access
    from goworkers_py.web.site.application import Application
    from goworkers_py.web.site.host import Host


def application(
    app: Host | None = None,
    *,
    authorize: Callable[[dict[str, Any], str], bool] | None = None,
    title: str | None = None,
    read_only: bool | None = None,
    access: Access | None = None,
    asks_push: bool = False,
) -> Application:
    """The pages as a WSGI application, to be mounted under any path of yours: `application(authorize=may)`.

    `may(environ, "view")` says whether the request may see the pages, `may(environ, "act")` whether it may change
    something; without it nobody may. With `asks_push=True` it is asked whether the request may "push" too: look, and
    push jobs. `environ["REMOTE_USER"]` is who, for the audit. `title` and `read_only` stand in
    the section [web] otherwise. docs/web.md mounts it in Django, Flask and FastAPI.
    """
    from goworkers_py.core.default_app import default_app
    from goworkers_py.web.site.access import ByFunction, Closed
    from goworkers_py.web.site.application import Application  # imports jinja2
    from goworkers_py.web.site.settings import PageSettings
    from goworkers_py.web.views.all_views import TABLE

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
