"""For a broker that is made of other brokers: names, for each member, the broker that answers it.

A `__getattr__` would not do: Python does not call it for a member that has a default in the class `Broker`, and the
default would be taken for the answer. `tests/brokers/test_forwarded.py` finds a member that such a broker neither
forwards nor answers.
"""

from __future__ import annotations

from typing import Any


class _Forwarded:
    def __init__(self, to: str) -> None:
        self._to = to

    def __set_name__(self, kind: type[object], name: str) -> None:
        self._name = name

    def __get__(self, broker: object | None, kind: type[object]) -> Any:
        return self if broker is None else getattr(getattr(broker, self._to), self._name)


def forwarded(to: str) -> Any:
    """The member of the same name of the object in the attribute `to`. It is asked each time: that object may make the
    part when it is first used, or may not have it."""
    return _Forwarded(to)
