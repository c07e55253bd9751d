"""No test of the test modes has a server."""

from __future__ import annotations

import pytest
from apps import without_server

from goworkers_py.api.app import App


@pytest.fixture
def app() -> App:
    return without_server()
