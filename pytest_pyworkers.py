"""The pytest plugin of goworkers-py: the fixtures `pyworkers_fake`, `pyworkers_inline`, `pyworkers_crash_points`, see
docs/testing.md.

A module outside of the package: pytest imports it in every project, and it imports the package in tests that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from goworkers_py import App
    from goworkers_py.testing import CrashPoint, Sandbox


@pytest.fixture
def pyworkers_app() -> App:
    """The App of the other fixtures: the default one. A conftest.py may define this fixture anew."""
    import goworkers_py

    return goworkers_py.app


@pytest.fixture
def pyworkers_fake(pyworkers_app: App) -> Iterator[Sandbox]:
    """Jobs that the test pushes stay in memory until it calls `pyworkers_fake.run_all()`."""
    from goworkers_py import testing

    with testing.fake(pyworkers_app) as sandbox:
        yield sandbox


@pytest.fixture
def pyworkers_inline(pyworkers_app: App) -> Iterator[Sandbox]:
    """Jobs that the test pushes run at once."""
    from goworkers_py import testing

    with testing.inline(pyworkers_app) as sandbox:
        yield sandbox


@pytest.fixture
def pyworkers_crash_points(pyworkers_app: App) -> Callable[..., list[CrashPoint]]:
    """`pyworkers_crash_points(charge, 42, state=..., reset=...)` kills the job at each step, and compares the ends."""
    from goworkers_py import testing

    return partial(testing.crash_points, app=pyworkers_app)
