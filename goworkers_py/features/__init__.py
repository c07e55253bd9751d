"""The features, each in its folder. The engine folds over this list, and imports none of them.

The order of their names is that in which they give ties to a push, and effects to an end. `TIES` has the order in which
a broker asks the ties of a push, and `RUNGS` the order around a run. A feature has one line here, its name, and one for
each of its ties and rungs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.core.effect import Tie

NAMES = (
    "tracking",
    "unique",
    "limits",
    "chains",  # before batches: the next link joins the batch before the end of the last one is counted
    "batches",
    "groups",
    "atomic",
    "cancelling",
    "calls",
    "configuration",
    "delays",
    "expiry",
    "for_ruby",
    "iteration",
    "messages",
    "periodic",
    "plain_lists",
    "ruby_status",
    "standby",
)
FEATURES: Sequence[Feature] = [import_module(f"{__name__}.{name}").FEATURE for name in NAMES]
# The order in which people see them: pages, findings of the doctor, metrics.
BY_NAME: Sequence[Feature] = sorted(FEATURES, key=lambda feature: feature.name)
# The ties of a push, by their words. All of them decide, in this order, then all of them write, see
# `brokers/redis/lua/fragments/push.lua`.
TIES = (
    "record",
    "batch",  # one that takes no jobs ends the push, before another tie answers for it
    "lock",  # a job that must wait for its lock goes elsewhere, and then joins no group
    "group",
    "slot",  # only of a job that goes into its queue
)
# The rungs around a run, outermost first, see `runtime.running.rungs`. The chain of links is inside of them. Those of
# the engine are in `runtime.running.guard`. A new rung stands before "group", unless it must stand elsewhere: there the
# job is no suspect that must run alone, and has no lock and no place of a limit yet.
RUNGS = (
    "ruby status",  # sidekiq-status shows that the job runs, in the step of the record
    "tracking",  # a record says that the job runs
    "chain",  # the next link may want the result
    "cancelling",  # a job that was cancelled does not begin
    "interruption",  # of the engine: one that is cancelled while it runs, or given to another process, ends so
    "needs",  # of the engine: nor does one begin that needs a newer release
    "newest",  # a unique job gets the arguments of a later push, and with them perhaps a later end of its life
    "expiry",  # a job whose time has passed does not begin
    "quarantine",  # of the engine: a suspect runs alone
    "expiry again",  # its time may have passed meanwhile
    "group",  # a member joins its group; a job that aggregates gets its members
    "lock",  # a unique job that must not begin now waits
    "ruby lock",
    "limits",  # a job that finds no place waits in a line
    "lock again",  # it has its places now, and begins
)


def rank_of(tie: Tie) -> int:
    """Its place in the order of a push."""
    return TIES.index(tie.word)


def feature_of(contract: type) -> Feature:
    """The feature whose parts of brokers implement this contract."""
    return next(entry for entry in FEATURES if entry.contract == contract.__name__)


def resumer_of(function: Callable[..., Any]) -> Feature | None:
    """The feature whose runs of this function end early, and go on later."""
    return next((entry for entry in FEATURES if entry.resumes(function)), None)
