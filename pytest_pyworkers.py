"""The pytest plugin of goworkers-py: the fixtures `pyworkers_fake` and `pyworkers_inline`, see docs/testing.md.

A module outside of the package: pytest imports it in every project, and it imports the package in tests that use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from goworkers_py import App
    from goworkers_py.testing import Sandbox


@pytest.fixture
def pyworkers_app() -> App:
    """The App of the two other fixtures: the default one. A conftest.py may define this fixture anew."""
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
