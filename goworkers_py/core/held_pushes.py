"""The pushes that a job holds back until it has ended well."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.core.effect import Push
from goworkers_py.core.errors import TooManyHeld

# They are sent to the broker in one step, with the settlement of the job.
MOST_HELD = 10_000
MOST_HELD_BYTES = 10_000_000


# Address and namespace of a broker.
Home = tuple[str, str]


class HeldPushes:
    """Belongs to one run of a job. Its thread adds, and so may threads that the job starts."""

    def __init__(self, home: Home, run: object) -> None:
        self.home = home  # pushes to this broker are held back
        self.run = run  # the message of the run; None outside of a job
        self._pushes: list[Push] = []
        self._bytes = 0
        self._closed = False

    def add(self, pushes: Sequence[Push]) -> None:
        if self._closed:
            raise TooManyHeld("the job has ended: what it started still pushes, and nothing is held back any more")
        size = sum(len(push.payload) for push in pushes)
        if len(self._pushes) + len(pushes) > MOST_HELD or self._bytes + size > MOST_HELD_BYTES:
            raise TooManyHeld(
                f"atomic holds back at most {MOST_HELD:,} pushes of {MOST_HELD_BYTES // 1_000_000} MB together: "
                "push jobs that push the others, or push outside of atomic"
            )
        self._pushes.extend(pushes)
        self._bytes += size

    def drop_after(self, count: int) -> None:
        """Keeps the first `count` pushes."""
        self._bytes -= sum(len(push.payload) for push in self._pushes[count:])
        del self._pushes[count:]

    def close(self) -> tuple[Push, ...]:
        """Returns the pushes. From now on none can be added."""
        self._closed = True
        return tuple(self._pushes)

    @property
    def count(self) -> int:
        return len(self._pushes)
