"""The slots of a periodic job: the times at which it fires, by its rule.

A cron expression follows the clock on the wall of its time zone, as Debian's cron does. A time that the clock shows
twice in autumn fires once; a time that it leaves out in spring fires at the end of the gap; an expression whose minute
or hour begins with a star goes on in steps of real time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol
from zoneinfo import ZoneInfo

from goworkers_py.core.errors import ConfigError
from goworkers_py.core.values import NamedTuple
from goworkers_py.features.periodic.schedule import CatchUp, Rule

# With catch_up = none, a slot is fired when it is at most so late: threads and clocks are never exact.
GRACE_S = 60.0
# With catch_up = all, so many slots are fired in one look, in order.
MOST_AT_ONCE = 1_000
# The last slot is looked for in the last hour, day, week and so on, the first of these that has one.
_WINDOWS_S = (3_600.0, 86_400.0, 8 * 86_400.0, 63 * 86_400.0, 400 * 86_400.0, math.inf)


class Slots(Protocol):
    def after(self, at: float) -> float:
        """The first slot after this time; infinite when there is none."""

    def latest(self, since: float, now: float) -> float | None:
        """The last slot after `since` that is not after `now`."""


# Names of other programs for expressions.
_NICKNAMES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip


class EverySlots:
    """Each multiple of the interval since the epoch, so that all processes and releases name the same slots."""

    def __init__(self, every: int) -> None:
        self._every = every

    def after(self, at: float) -> float:
        return float((math.floor(at / self._every) + 1) * self._every)

    def latest(self, since: float, now: float) -> float | None:
        slot = float(math.floor(now / self._every) * self._every)
        return slot if slot > since else None


class CronSlots:
    def __init__(self, expression: str, zone: ZoneInfo) -> None:
        """Raises ValueError for an expression that is none."""
        from cronsim import CronSim, CronSimError

        self._expression, self._zone, self._parse = expression, zone, CronSim
        try:
            CronSim(expression, datetime.now(zone))
        except CronSimError as error:
            raise ValueError(str(error)) from None

    def after(self, at: float) -> float:
        return next(self._from(at), math.inf)

    def latest(self, since: float, now: float) -> float | None:
        for window_s in _WINDOWS_S:
            found = None
            for slot in self._from(max(since, now - window_s)):
                if slot > now:
                    break
                found = slot
            if found is not None or now - window_s <= since:
                return found
        return None

    def _from(self, at: float) -> Iterator[float]:
        # Within the hour that the clock shows twice, cronsim may begin with a slot of the first time.
        slots = (slot.timestamp() for slot in self._parse(self._expression, datetime.fromtimestamp(at, self._zone)))
        return (slot for slot in slots if slot > at)


def zone_of(name: str) -> ZoneInfo:
    """Raises ConfigError for a name that nobody knows."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # what ZoneInfo raises is a LookupError, and for a folder an OSError
        raise ConfigError(
            f"timezone: {name!r} is not known; write a name such as Europe/Berlin or UTC "
            "(a machine without zone files needs `pip install tzdata`)"
        ) from None


def slots_of(rule: Rule) -> Slots:
    """Raises ConfigError for a rule that is none."""
    if not rule.cron:
        if rule.every < 1:
            raise ConfigError(f"every must be at least 1 second, is {rule.every}")
        return EverySlots(rule.every)
    zone = zone_of(rule.timezone)
    try:
        return CronSlots(rule.cron, zone)
    except ImportError:
        raise ConfigError(
            "cron: expressions need the package cronsim: pip install 'goworkers-py[cron]' (every = SECONDS needs none)"
        ) from None
    except ValueError as error:
        raise ConfigError(
            f"cron: {rule.cron!r} is no cron expression: {error}; write minute, hour, day, month and weekday, "
            f"such as {_NICKNAMES.get(rule.cron.strip(), '0 3 * * *')}"
        ) from None


class Due(NamedTuple):
    """The findings of a look at a schedule."""

    fire: tuple[float, ...] = ()  # slots, in order
    missed: tuple[float, float] | None = None  # the first and the last slot that are given up
    next: float = math.inf  # the next slot; now or before it, when more are to be fired at once


def due(slots: Slots, since: float, now: float, catch_up: CatchUp) -> Due:
    first = slots.after(since)
    if first > now:
        return Due(next=first)
    if catch_up == "all":
        fire = [first]
        while (following := slots.after(fire[-1])) <= now and len(fire) < MOST_AT_ONCE:
            fire.append(following)
        return Due(tuple(fire), None, following)
    latest = slots.latest(since, now)
    if latest is None:  # never, but for a fault in the rule
        return Due(next=slots.after(now))
    if catch_up == "none" and now - latest > GRACE_S:
        return Due((), (first, latest), slots.after(now))
    return Due((latest,), (first, latest) if first < latest else None, slots.after(now))
