"""Limits in the program that declares them: `workers.limit`, and blocks of code under a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from goworkers_py.api.block_owner import BlockKeeper, BlockOwner
from goworkers_py.brokers.broker import Broker
from goworkers_py.config.options import Config
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, ConfigError, LimitTimeout
from goworkers_py.features.limits.configured import configured
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import MOST, LimitSpec, Slot, Undeclared, is_limit_name, rate_of
from goworkers_py.features.limits.limiting import declare, queues_of_limits, slot_for
from goworkers_py.policy.registry import Registry

# A block that waits tries again after so long, first and at most.
FIRST_PAUSE_S, LONGEST_PAUSE_S, LOOK_EVERY_S = 0.05, 0.5, 1.0


class Limit:
    """A limit, made by `workers.limit`: `@workers.job(limits=[stripe])`, or `with stripe.acquire(timeout=2): ...`."""

    def __init__(self, spec: LimitSpec, limited: Limited) -> None:
        self.spec = spec
        self._limited = limited

    @property
    def name(self) -> str:
        """The name that the limit has in the whole fleet."""
        return self.spec.name

    @contextmanager
    def acquire(self, *args: Any, timeout: float | None = None, **kwargs: Any) -> Iterator[None]:
        """`with stripe.acquire(timeout=2): ...` runs a block of code with a place in the limit, in a job or elsewhere.
        LimitTimeout is raised after so many seconds without a place. `by` gets the other arguments."""
        slot, jid = slot_for(self.spec, args, kwargs), f"block-{machine.token_hex(12)}"
        with self._limited.owner.present() as owner:
            try:  # also around `_wait`: the reply may be lost, or an exception may strike, after the place was taken
                self._wait(slot, jid, owner, timeout)
                yield
            finally:
                queues, identity = self._limited.queues(slot), owner.lease.identity
                owner.leave(partial(self._limited.limits.leave, slot, jid, queues, identity))

    def _wait(self, slot: Slot, jid: str, owner: BlockKeeper, timeout: float | None) -> None:
        give_up_at, pause_s = None if timeout is None else machine.monotonic() + timeout, FIRST_PAUSE_S
        look_at = 0.0
        while not self._take(slot, jid, owner):
            if machine.monotonic() >= look_at:  # an owner may have died
                look_at = machine.monotonic() + LOOK_EVERY_S
                self._look(slot, owner)
                if self._take(slot, jid, owner):
                    return
            left_s = pause_s if give_up_at is None else give_up_at - machine.monotonic()
            if left_s <= 0:
                raise LimitTimeout(self.name, timeout or 0.0)
            machine.Event().wait(min(pause_s, left_s))
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)

    def _look(self, slot: Slot, owner: BlockKeeper) -> None:
        limits = self._limited.limits
        with suppress(BrokerError):  # the next look may succeed; and a daemon may do it
            owner.declare_dead({holder.owner for holder in limits.holders(slot)})
        limits.look(slot, self._limited.queues(slot))

    def _take(self, slot: Slot, jid: str, keeper: BlockKeeper) -> bool:
        # A place that is taken under a dead identity would be freed while the block runs.
        owner = keeper.lease.identity
        if not keeper.lease.surely_of(owner):
            return False
        limits = self._limited.limits
        taken = limits.take(slot, jid, owner)
        if isinstance(taken, Undeclared):
            limits.declare([configured(self.spec, self._limited.config()).settings])
            taken = limits.take(slot, jid, owner)
        return taken is True

    def __repr__(self) -> str:
        return f"<Limit {self.name}>"


class Limited:
    """The part of an App that its limits use."""

    def __init__(self, broker: Callable[[], Broker], config: Callable[[], Config], registry: Registry) -> None:
        self._broker = broker
        self.config = config
        self.registry = registry
        self.owner = BlockOwner(lambda: self._broker().recoverable, lambda: self.config().timing)

    @property
    def limits(self) -> Limits:
        return self._broker().require_part(Limits)

    def queues(self, slot: Slot) -> list[str]:
        return queues_of_limits(self.registry, [slot.limit])


def declared_limit(
    limited: Limited,
    name: str,
    concurrent: int | None,
    rate: str | None,
    burst: int,
    by: Callable[..., Any] | None,
    pass_retries: bool,
) -> Limit:
    """See `App.limit`."""
    spec = _checked(name, concurrent, by, pass_retries)
    if rate is not None:
        try:
            spec = LimitSpec(name, concurrent, rate_of(rate, burst), by, pass_retries)
        except ValueError as error:
            raise ConfigError(f"limit {name}: rate {error}") from None
    elif burst != 1:
        raise ConfigError(f"limit {name}: burst needs a rate")
    if spec.concurrent is None and spec.rate is None:
        raise ConfigError(f"limit {name}: give concurrent, rate or both")
    declare(limited.registry, spec)
    return Limit(spec, limited)


def _checked(name: str, concurrent: int | None, by: Callable[..., Any] | None, pass_retries: bool) -> LimitSpec:
    if not is_limit_name(name):
        raise ConfigError(f"limit {name!r}: a name has up to 100 characters, and no space and no colon")
    if concurrent is not None and (type(concurrent) is not int or not 0 < concurrent <= MOST):
        raise ConfigError(f"limit {name}: concurrent must be a number of jobs from 1 on, is {concurrent!r}")
    if pass_retries and concurrent != 1:
        raise ConfigError(f"limit {name}: pass_retries needs concurrent=1, so that a line waits for a retry")
    if by is not None and not callable(by):
        raise ConfigError(f"limit {name}: by must be a function of the job's arguments, is {by!r}")
    return LimitSpec(name, concurrent, None, by, pass_retries)
