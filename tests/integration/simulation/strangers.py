"""Payloads as programs in other languages may write them: equal ones, and some that our own code stumbles over."""

from __future__ import annotations

import random
from typing import Any

import simplejson

from simulation.fleet import Fleet
from simulation.ledger import PUSHED, Promise


def push(dice: random.Random, fleet: Fleet) -> None:
    kind = int(dice.random() * 4)
    (_twins, _twins, _bad_backtrace, _bad_limit)[kind](dice, fleet)


def _push(fleet: Fleet, promise: Promise, **fields: Any) -> None:
    promise.answer, promise.jid = PUSHED, f"{promise.number:024x}"
    job = {"class": "any-plain", "args": [promise.number, promise.key], "queue": "work", "jid": promise.jid}
    payload = simplejson.dumps({**job, "retry": True, **fields}).encode()
    fleet.server.push_raw("work", payload, promise.copies)


def _twins(dice: random.Random, fleet: Fleet) -> None:
    """Jobs of the same bytes, which are separate jobs. Every second one soon ends well while others run yet, and these
    may fail: so a second settlement of one that has ended would lose one of the others."""
    run_s = dice.random() * 90
    copies = 4 + int(dice.random() * 5)
    failures = copies // 2 if dice.random() < 0.7 else 0
    promise = fleet.ledger.promise(
        key="red",
        run_s=run_s,
        first_run_s=dice.random() * 2,
        copies=copies,
        failures=failures,
        traits=frozenset({"twins"}),
        pushed=fleet.kernel.now,
    )
    _push(fleet, promise)


def _bad_backtrace(dice: random.Random, fleet: Fleet) -> None:
    """How many lines of the backtrace to keep is a number that no code expects."""
    promise = fleet.ledger.promise(
        key="red", failures=1 + int(dice.random() * 2), traits=frozenset({"stranger"}), pushed=fleet.kernel.now
    )
    _push(fleet, promise, backtrace=-1)


def _bad_limit(dice: random.Random, fleet: Fleet) -> None:
    """It holds a place under a key that no text can be written with."""
    promise = fleet.ledger.promise(key="red", judged=False, traits=frozenset({"stranger"}), pushed=fleet.kernel.now)
    limits = [{"name": "crowd", "key": "\ud800"}]
    _push(fleet, promise, pyworkers={"v": 1, "needs": ["limits"], "limits": limits})
