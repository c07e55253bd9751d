"""The delay queues of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from delaying import Queues

from goworkers_py.features.delays import keeper


@pytest.fixture
def queues() -> Iterator[Queues]:
    with closing(Queues()) as made:
        yield made


@pytest.fixture
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process looks for the tasks of others at once."""
    monkeypatch.setattr(keeper, "LOOK_S", 0.1)
