"""Pages of all features: names that are no text, and brokers without the feature."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application
from goworkers_py.web.views.all_views import TABLE

OFFERED_BY_SOME = ("partitions", "reports", "configuration", "configurations")
FEATURES = ("periodic", "batch", "batches", "chain", "chains", "group", "groups", "limit", "limits", "lock", "locks")


@pytest.mark.parametrize("path", [path for path in (*TABLE.views, *TABLE.actions) if path.split("/")[1] in FEATURES])
def test_a_name_that_is_no_text_is_refused_and_no_fault_of_the_page(client: Client, path: str) -> None:
    if (view := TABLE.views.get(path)) is not None:
        answer = client.get(f"{path}?" + "&".join(f"{one.name}=%ff" for one in view.query))
    else:
        names = [one.name for one in TABLE.actions[path].fields if one.needed]
        answer = client.sure(
            path, {**dict.fromkeys(names, "\udcff"), "grace": "5m", "cron": "* * * * *", "rate": "any"}
        )
    assert answer.status in (200, 303, 400, 404), answer.text


# --- a broker without the features


@pytest.mark.parametrize("path", [path for path in TABLE.views if path.split("/")[1] in (*FEATURES, *OFFERED_BY_SOME)])
def test_a_broker_without_the_feature_says_so(tmp_path: Path, path: str) -> None:
    app = App()
    app.configure(broker=f"dir://{quote(str(tmp_path))}")
    needed = "&".join(f"{one.name}=x" for one in TABLE.views[path].query if one.needed)
    client = Client(application(app, authorize=lambda environ, action: True))
    answer = client.get(f"{path}?{needed}")
    told = re.search(r"This broker (has|stores) no|the directory (has|stores) no", unescape(answer.text))
    assert (answer.status in ((400, 404) if needed else (200,)), told is not None) == (True, True)
    assert "state problem" not in answer.text
