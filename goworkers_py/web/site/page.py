"""Puts the data of a view into its template, with what every page has: the menu, links, the form token, notices."""

from __future__ import annotations

from typing import Any

from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.request import Request
from goworkers_py.web.http.response import Response
from goworkers_py.web.site import csrf, notice
from goworkers_py.web.site.access import ACT, PUSH, VIEW
from goworkers_py.web.site.rendering import render, version_of
from goworkers_py.web.site.settings import PageSettings
from goworkers_py.web.site.table import Action, Data, RowTable, View
from goworkers_py.web.site.visit import Visit


class Pages:
    """Made for one request."""

    def __init__(self, table: RowTable, settings: PageSettings) -> None:
        self._table = table
        self._settings = settings

    def page(self, visit: Visit, view: View, data: Data, token: str) -> Response:
        return self._with_notice(visit, self._rendered(visit, view.template, view.title, view.section or view.path,
                                                       {**data, "token": token}))  # fmt: skip

    def plain(self, visit: Visit, template: str, title: str, data: Data) -> Response:
        """A page of an action."""
        return self._rendered(visit, template, title, "", {**data, "token": csrf.token_of(visit.request)})

    def question(self, visit: Visit, action: Action, question: str) -> Response:
        """Asks before a change. The form sends the same fields again, with the answer."""
        form = visit.request.form.items()
        fields = [(name, value) for name, values in form for value in values if name != csrf.FIELD]
        data = {"question": question, "fields": fields, "path": action.path, "back": back_of(visit)}
        return self.plain(visit, "question.html", "Are you sure?", data)

    def error(self, request: Request, visit: Visit | None, error: Refused) -> Response:
        """`visit` is None for somebody who may see nothing."""
        data = {
            **self._shared(request),
            "visit": visit if visit is not None and visit.grant.may(VIEW) else None,
            "status": error.status, "message": error.message, "title": "Error", "section": "",
        }  # fmt: skip
        return Response.of_text(render("error.html", data), status=error.status)

    def _rendered(self, visit: Visit, template: str, title: str, section: str, data: Data) -> Response:
        values: dict[str, Any] = {
            **self._shared(visit.request),
            "visit": visit,
            "title": title,
            "section": section,
            "may_act": visit.grant.may(ACT) and not self._settings.read_only,
            "may_push": visit.grant.may(PUSH) and not self._settings.read_only,
            "read_only": self._settings.read_only,
            "notice": notice.said_in(visit.request),
            "partitions": [partition.name for partition in visit.host.config.partitions],
            **data,
        }
        return Response.of_text(render(template, values))

    def _shared(self, request: Request) -> dict[str, Any]:
        return {
            "site_title": self._settings.title,
            "root": request.root,
            "menu": self._table.menu,
            "offers": self._table.views.__contains__,
            "of_file": lambda name: f"{request.root}/static/{name}?v={version_of(name)}",
        }

    def _with_notice(self, visit: Visit, response: Response) -> Response:
        if notice.said_in(visit.request):
            response.headers.append(notice.cookie(visit.request, ""))
        return response


def back_of(visit: Visit) -> str:
    """The page from which a form came: an address of this application, whatever the field says."""
    address = str((visit.request.form.get("_back") or [""])[-1])
    inside = address.startswith(f"{visit.request.root}/") and not address.startswith(("//", "/\\"))
    # A header holds no other characters; links of pages have them quoted.
    return (
        address if inside and address.isascii() and address.isprintable() and "\\" not in address else visit.link("/")
    )
