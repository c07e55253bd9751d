"""Options for all jobs of an application, or of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from goworkers_py import App, ConfigError
from goworkers_py.config.job_options import CodeOptions


@pytest.fixture
def app() -> App:
    return App()


def options(app: App, module: str = "shop.billing.jobs", **own: Any) -> CodeOptions:
    """Of a job that is declared now, in that module."""

    def run() -> None: ...

    run.__module__ = module
    app.job("J", **own)(run)
    spec = app.registry.job("J")
    assert spec is not None
    return spec.options


def test_defaults_of_the_application_apply_to_jobs_that_are_declared_after_them(app: App) -> None:
    assert options(app) == {}
    app.defaults(retry=5, queue="slow")
    assert options(app) == {"retry": 5, "queue": "slow"}
    assert app.registry.queues() == ["slow"]


def test_defaults_of_a_module_apply_to_it_and_to_the_modules_below_it(app: App) -> None:
    app.defaults("shop.billing", retry=5)
    applied = {
        module: bool(options(app, module))
        for module in ("shop.billing", "shop.billing.jobs", "shop", "shop.billing2", "billing", "jobs")
    }
    assert [module for module, has in applied.items() if has] == ["shop.billing", "shop.billing.jobs"]


def test_the_nearer_options_override_the_farther_ones(app: App) -> None:
    app.defaults("shop.billing.jobs", tags=["c"])
    app.defaults("shop", retry=2, tags=["b"], timeout=20)
    app.defaults(retry=1, tags=["a"], timeout=10, queue="q")
    assert options(app, timeout=30) == {"retry": 2, "tags": ["c"], "timeout": 30, "queue": "q"}


def test_an_option_that_is_none_leaves_the_default(app: App) -> None:
    app.defaults(retry=5)
    assert options(app, retry=None) == {"retry": 5}


def test_a_second_call_adds_to_the_first(app: App) -> None:
    app.defaults(retry=5, timeout=10)
    app.defaults(retry=6)
    assert options(app) == {"retry": 6, "timeout": 10}


def test_an_expiry_of_the_job_replaces_another_one_of_the_defaults(app: App) -> None:
    app.defaults(expires_in=60)
    assert options(app, expires_at=4e9) == {"expires_at": 4e9}


def test_a_default_of_atomic_holds_back_the_pushes_of_the_jobs(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.defaults(atomic=True)
    held: list[Callable[..., Any]] = []
    monkeypatch.setattr(
        "goworkers_py.features.atomic.api.atomically", lambda function: held.append(function) or function
    )
    options(app)
    assert len(held) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"retries": 5}, "defaults(): retries is not an option; did you mean 'retry'?"),
        ({"retry": "often"}, "defaults(): retry must be true, false or a number of retries, is 'often'"),
        ({"jid": "x"}, "defaults(): jid is not an option of @job; it is one of job.set(...)"),
    ],
)
def test_a_wrong_option_is_refused_where_it_is_given(app: App, given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        app.defaults(**given)
    assert str(caught.value) == told
