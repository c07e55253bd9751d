"""What `@job` may decorate."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from goworkers_py import App, ConfigError


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture(params=["@job", "@job('Name')"])
def declare(request: pytest.FixtureRequest, app: App) -> Callable[[Any], Any]:
    return app.job if request.param == "@job" else app.job("Name")


def test_a_method_is_refused_with_what_to_write_instead(declare: Callable[[Any], Any]) -> None:
    with pytest.raises(ConfigError, match=r"Mailer.send is a method, .* a function of the module, or a @staticmethod"):

        class Mailer:
            @declare
            def send(self) -> None: ...


@pytest.mark.parametrize("job_is_above", [True, False])
def test_a_class_method_is_refused_in_both_orders(declare: Callable[[Any], Any], job_is_above: bool) -> None:
    def send(cls: object) -> None: ...

    send.__qualname__ = "Mailer.send"
    with pytest.raises(ConfigError, match=r"Mailer.send is a method"):
        declare(classmethod(send) if job_is_above else send)


def test_a_wrapped_method_is_refused_too(declare: Callable[[Any], Any]) -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any) -> Any:
            return function(*args)

        return call

    with pytest.raises(ConfigError, match=r"Mailer.send is a method"):

        class Mailer:
            @declare
            @logged
            def send(self) -> None: ...


def test_a_static_method_is_a_job_in_both_orders(app: App) -> None:
    class Mailer:
        @app.job("Send", atomic=True)
        @staticmethod
        def send(address: str) -> str:
            return address

        @staticmethod
        @app.job("Forward")
        def forward(address: str) -> str:
            return address

    assert (Mailer.send("ada"), Mailer.forward("ada")) == ("ada", "ada")
    assert app.registry.names() == ["Forward", "Send"]
    assert [Mailer.send.name, Mailer.forward.name] == ["Send", "Forward"]


def test_a_class_is_refused(declare: Callable[[Any], Any]) -> None:
    with pytest.raises(ConfigError, match=r"Mailer is a class; decorate a function, which may call the class"):

        @declare
        class Mailer:
            def perform(self) -> None: ...


@pytest.mark.parametrize("thing", [7, b"Name", ["Name"]])
def test_what_is_neither_a_function_nor_a_name_is_refused(declare: Callable[[Any], Any], thing: Any) -> None:
    with pytest.raises(ConfigError, match=r"is no function; write @job, @job\('Name'\) or @job\(queue='mail'\)"):
        declare(thing)


def test_whatever_else_can_be_called_is_a_job(app: App) -> None:
    class Mailer:
        def send(self, address: str) -> str:
            return address

        def __call__(self, address: str) -> str:
            return address

    def inside(self: str) -> str:
        return self

    for number, function in enumerate(
        (Mailer().send, Mailer(), inside, print, [].append, functools.partial(inside, "ada"), lambda self: self)
    ):
        app.job(f"J{number}")(function)
    assert len(app.registry.names()) == 7
