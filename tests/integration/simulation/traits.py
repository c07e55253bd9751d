"""Draws jobs: up to three traits each, so that every pair of features meets in some job of some run."""

from __future__ import annotations

import random
from collections.abc import Set as AbstractSet

from simulation.ledger import LIMITED, Ledger, Promise

TRAITS = (
    *LIMITED, "retried", "hopeless", "later", "unique", "unique-start", "unique-replace", "tracked", "expiring",
    "cancelled", "iterable", "atomic", "parent", "ranked", "timed", "group", "batch", "chain",
    "blocking",
)  # fmt: skip
# A job has one of each of these at most.
_ONE_OF = (
    LIMITED,
    ("retried", "hopeless"),
    ("unique", "unique-start", "unique-replace"),
    ("iterable", "atomic", "group"),
    ("iterable", "parent"),
    ("iterable", "blocking"),
    ("keyed", "blocking"),  # it would wait for itself
    ("iterable", "timed"),
    ("unique-replace", "timed"),  # the job that is replaced keeps its own time limit
    ("group", "batch", "chain"),
)
# Not for a link of a chain, and not for a member of a group.
NOT_IN_CHAINS = {"later", "unique", "unique-start", "unique-replace", "expiring", "group"}
_NOT_IN_GROUPS = {
    "iterable", "atomic", "timed", *LIMITED, "parent", "unique-replace", "retried", "hopeless", "blocking", "expiring",
}  # fmt: skip
KEYS = ("red", "green", "blue")


def draw(
    dice: random.Random, ledger: Ledger, now: float, barred: AbstractSet[str], like: Promise | None = None
) -> Promise:
    """`now` is the server's time. Often the job meets another one, `like` which it is, at the same lock or limit."""
    traits, key = _traits(dice, barred), KEYS[int(dice.random() * len(KEYS))]
    if like is not None and dice.random() < 0.5:
        traits, key = like.traits.intersection(TRAITS).difference(barred), like.key
    promise = ledger.promise(traits=traits, key=key)
    promise.run_s = promise.first_run_s = dice.random() ** 4 * 120
    promise.due = now
    for trait in sorted(traits):
        _OPTIONS.get(trait, _nothing)(promise, dice, now)
    return promise


def _traits(dice: random.Random, barred: AbstractSet[str]) -> frozenset[str]:
    traits: set[str] = set()
    for _ in range(int(dice.random() * 4)):
        trait = TRAITS[int(dice.random() * len(TRAITS))]
        if trait not in barred and _fits(trait, traits):
            traits.add(trait)
    return frozenset(traits)


def _fits(trait: str, traits: set[str]) -> bool:
    both = traits | {trait}
    if any(len(both.intersection(group)) > 1 for group in _ONE_OF):
        return False
    if "chain" in both and both & NOT_IN_CHAINS:
        return False
    return not ("group" in both and both & _NOT_IN_GROUPS)


# --- what a trait says of a job


def _nothing(promise: Promise, dice: random.Random, now: float) -> None:
    """Its class has the trait, or the place where it is pushed."""


def _retried(promise: Promise, dice: random.Random, now: float) -> None:
    promise.failures = 1 + int(dice.random() * 3)


def _hopeless(promise: Promise, dice: random.Random, now: float) -> None:
    promise.hopeless = True


def _later(promise: Promise, dice: random.Random, now: float) -> None:
    promise.due = promise.options["at"] = now + 1 + dice.random() ** 3 * 600


def _unique(promise: Promise, dice: random.Random, now: float) -> None:
    promise.options["unique_by"] = lambda number, key: key
    promise.options["unique_for"] = 30 if dice.random() < 0.6 else 3600  # some locks are shorter than their jobs


def _unique_start(promise: Promise, dice: random.Random, now: float) -> None:
    _unique(promise, dice, now)
    promise.options["unique_until"] = "start"


def _unique_replace(promise: Promise, dice: random.Random, now: float) -> None:
    _unique(promise, dice, now)
    promise.options["on_conflict"] = "replace"


def _tracked(promise: Promise, dice: random.Random, now: float) -> None:
    promise.options.update(track=True, retain=86_400)


def _expiring(promise: Promise, dice: random.Random, now: float) -> None:
    promise.expires = promise.options["expires_at"] = now + 5 + dice.random() ** 2 * 900


def _iterable(promise: Promise, dice: random.Random, now: float) -> None:
    promise.steps, promise.options["checkpoint"] = 1 + int(dice.random() * 15), 3
    if dice.random() < 0.5:
        promise.options["time_slice"] = 5


def _with_children(promise: Promise, dice: random.Random, now: float) -> None:
    promise.kin = 1 + int(dice.random() * 3)


def _ranked(promise: Promise, dice: random.Random, now: float) -> None:
    promise.options["priority"] = "high" if dice.random() < 0.5 else "low"


def _timed(promise: Promise, dice: random.Random, now: float) -> None:
    """Its first run may be longer than its time limit."""
    promise.options["timeout"], promise.first_run_s, promise.run_s = 10, dice.random() * 30, 1.0


def _in_group(promise: Promise, dice: random.Random, now: float) -> None:
    promise.options["group"] = promise.key


_OPTIONS = {
    "retried": _retried,
    "hopeless": _hopeless,
    "later": _later,
    "unique": _unique,
    "unique-start": _unique_start,
    "unique-replace": _unique_replace,
    "tracked": _tracked,
    "expiring": _expiring,
    "iterable": _iterable,
    "atomic": _with_children,
    "parent": _with_children,
    "ranked": _ranked,
    "timed": _timed,
    "group": _in_group,
}
