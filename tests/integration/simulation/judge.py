"""Judges a run by the ledger and by what the broker has at the end. Each rule yields sentences about what is wrong."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import simplejson

from goworkers_py.core.timing import TIMING
from simulation.fleet import Fleet
from simulation.jobs import AT_ONCE, BURST, RATE_PER_S, RETRY_AFTER_S, STRICT, TICKS_S
from simulation.ledger import PUSHED, Promise, Run

LEASE_S = TIMING.lease_s
PACED_S = 30.0
# A process may take a job for live for so long after its expiry, because it guesses the server's clock.
MOST_STALE_S = 60.0
# A process tells so soon after the begin of a job that its lock stays.
TOLD_WITHIN_S = 10.0


class Judge:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._ledger = fleet, fleet.ledger
        self._promises = fleet.ledger.promises
        self._dead = Counter(number for payload in fleet.server.contents().dead for number in numbers_in(payload))

    def complaints(self) -> list[str]:
        rules: Sequence[Callable[[], Iterator[str]]] = (
            self._lost, self._twice, self._at_once, self._early, self._expired, self._crowded, self._locked,
            self._lock_twice, self._unordered, self._paced, self._atomic, self._callbacks, self._chains, self._ticks,
            self._left,
        )  # fmt: skip
        return [*self._fleet.kernel.failures, *itertools.chain.from_iterable(rule() for rule in rules)]

    # --- jobs

    def _lost(self) -> Iterator[str]:
        replaced = {p.jid for p in self._promises if "unique-replace" in p.traits and self._has_ended(p)}
        for promise in self._promises:
            if promise.answer != PUSHED or len(promise.ended_well) >= promise.copies or self._may_not_run(promise):
                continue
            if promise.jid and promise.jid in replaced:
                continue
            if not self._dead[promise.number] or len(promise.ended_well) + self._dead[promise.number] < promise.copies:
                yield f"lost: {promise} was pushed at {promise.pushed:.3f} and never ended{_runs(promise)}"
            elif (
                not promise.hopeless
                and "blocking" not in promise.traits
                and (promise.runs or "group" not in promise.traits)  # killed, perhaps, in the part of another member
                and not any(run.process in self._ledger.killed for run in promise.runs)
            ):
                yield f"buried without a reason: {promise}{_runs(promise)}"

    def _has_ended(self, promise: Promise) -> bool:
        return bool(promise.ended_well) or promise.number in self._dead or self._may_not_run(promise)

    def _may_not_run(self, promise: Promise) -> bool:
        if not promise.judged or promise.given_up or promise.cancelled < math.inf:
            return True
        if promise.expires < math.inf and self._fleet.server.newest_time() >= promise.expires:
            return True
        if promise.parent is not None and "atomic" in promise.parent.traits:
            return True  # see `_atomic`
        before = self._link_before(promise)
        # A run may end well whose process is killed before it can say so: after more such kills the link is dead.
        return before is not None and (not before.ended_well or before.number in self._dead)

    def _link_before(self, promise: Promise) -> Promise | None:
        if not promise.within.startswith("c"):
            return None
        before = self._promises[promise.number - 1] if promise.number else None
        return before if before is not None and before.within == promise.within else None

    def _twice(self) -> Iterator[str]:
        for promise in self._promises:
            if promise.copies > 1:
                surplus = len(promise.ended_well) - promise.copies
                if surplus > 0 and not any(self._ledger.disturbed(run.process, run.began) for run in promise.runs):
                    yield f"{surplus} runs more than pushes, without a reason: {promise}{_runs(promise)}"
                continue
            for run, later in itertools.pairwise(promise.runs):
                # The later one may have had the job before, and been paused until others had recovered and run it.
                disturbed = self._ledger.disturbed(run.process, run.began, later.began) or self._ledger.disturbed(
                    later.process, later.began, later.began
                )
                if run.how == "ok" and not disturbed:
                    yield f"ran again without a reason: {promise}: {later}, after {run}"

    def _at_once(self) -> Iterator[str]:
        for promise in self._promises:
            if promise.copies == 1 and "group" not in promise.traits:
                yield from self._more_at_once(str(promise), [("", run) for run in promise.runs], 1)

    def _early(self) -> Iterator[str]:
        for promise in self._promises:
            # A push whose time has come by the clock of its machine goes into the queue.
            due = promise.due - max(0.0, promise.pusher_ahead_s)
            surely = promise.answer == PUSHED and "unique-replace" not in promise.traits
            if promise.runs and surely and promise.runs[0].began_by_server < due - 1e-6:
                early_s = due - promise.runs[0].began_by_server
                yield f"early by {early_s:.6f} s: {promise}: {promise.runs[0]}"
            for run, later in itertools.pairwise(promise.runs):
                left_s = run.ended_by_server + RETRY_AFTER_S - later.began_by_server
                if run.how == "failed" and left_s > 1e-6 and not self._ledger.disturbed(run.process, run.began):
                    yield f"retried early by {left_s:.6f} s: {promise}: {later}, after {run}"

    def _expired(self) -> Iterator[str]:
        for promise in self._promises:
            if not promise.runs:
                continue
            run = promise.runs[0]
            if self._ledger.disturbed(run.process, run.began, run.began):
                continue  # it was paused, perhaps after it had looked at the time
            stale_s = MOST_STALE_S + self._ledger.forward_s(run.began - MOST_STALE_S, run.began)
            if run.began_by_server > promise.expires + stale_s:
                late_s = run.began_by_server - promise.expires
                yield f"began {late_s:.0f} s after its expiry: {promise}: {run}"

    # --- limits and locks

    def _crowded(self) -> Iterator[str]:
        for (limit, key), runs in self._by_limit().items():
            yield from self._more_at_once(f"limit {limit} {key}".rstrip(), runs, AT_ONCE[limit])

    def _by_limit(self) -> dict[tuple[str, str], list[tuple[str, Run]]]:
        found: dict[tuple[str, str], list[tuple[str, Run]]] = defaultdict(list)
        for promise in self._promises:
            for limit in AT_ONCE.keys() & promise.traits:
                found[limit, "" if limit == "crowd" else promise.key] += [(str(promise), run) for run in promise.runs]
        for limit, key, run in self._ledger.blocks:
            found[limit, "" if limit == "crowd" else key].append(("a block", run))
        return found

    def _more_at_once(self, what: str, runs: Sequence[tuple[str, Run]], most: int) -> Iterator[str]:
        held: list[tuple[float, str, Run]] = []
        for name, run in sorted(runs, key=lambda one: one[1].began):
            held = [one for one in held if one[0] > run.began + 1e-9]
            until = self._ledger.held_until(run, LEASE_S)
            if until <= run.began:  # its process was frozen in the midst of its begin, for longer than its lease
                continue
            held.append((until, name, run))
            if len(held) > most:
                yield f"{what}: {len(held)} at once: " + "; ".join(f"{name}: {run}" for _, name, run in held)
                return

    def _locked(self) -> Iterator[str]:
        found: dict[tuple[str, str], list[tuple[str, Run]]] = defaultdict(list)
        for promise in self._promises:
            if promise.traits & {"unique", "unique-replace"} and "group" not in promise.traits:
                # A lock may end while its job waits, and until its process has told that it runs.
                lasts = promise.due + promise.options["unique_for"]
                found[promise.job_class, promise.key] += [
                    (str(promise), run)
                    for run in promise.runs
                    if run.began_by_server + self._ledger.forward_s(run.began, run.began + TOLD_WITHIN_S) < lasts
                ]
        for (job_class, key), runs in found.items():
            yield from self._more_at_once(f"lock of {job_class} {key}", runs, 1)

    def _lock_twice(self) -> Iterator[str]:
        """A push got a lock whose job certainly waited or ran."""
        # The lock of a member of a group ends with the flush of its group.
        unique = [
            p
            for p in self._promises
            if "unique" in p.traits and "group" not in p.traits and p.answer == PUSHED and p.ended_well
        ]
        for first, later in itertools.combinations(unique, 2):
            if (first.job_class, first.key) != (later.job_class, later.key):
                continue
            end = first.ended_well[0].ended
            lasts = first.due + first.options["unique_for"]
            if first.answered < later.pushed and later.answered < end and later.answered_by_server < lasts:
                yield f"lock given twice: {later} was pushed at {later.pushed:.3f} while {first} held it{_runs(first)}"

    def _unordered(self) -> Iterator[str]:
        lines: dict[str, list[Promise]] = defaultdict(list)
        for promise in self._promises:
            plain = not promise.traits & {"later", "ranked", "chain", "group", "batch", "unique-replace", "expiring"}
            if STRICT in promise.traits and plain and promise.parent is None and promise.answer == PUSHED:
                lines[promise.key].append(promise)
        for line in lines.values():
            for first, later in itertools.pairwise(line):
                in_order = first.answered < later.pushed and first.runs and later.runs
                if in_order and later.runs[0].began < first.runs[0].began:
                    yield f"out of order: {later}: {later.runs[0]}, before {first}: {first.runs[0]}"

    def _paced(self) -> Iterator[str]:
        """A job takes its turn when it leaves the line, and may then wait for a thread: with those before it, it begins
        later than its turn came."""
        begins = sorted(p.runs[0].began_by_server for p in self._promises if "paced" in p.traits and p.runs)
        most = 2 * (BURST + RATE_PER_S * PACED_S)
        for number, began in enumerate(begins):
            within = sum(later < began + PACED_S for later in begins[number:])
            if within > most:
                yield f"limit paced: {within} began within {PACED_S:.0f} s"
                return

    # --- what belongs together

    def _atomic(self) -> Iterator[str]:
        for promise in self._promises:
            if "atomic" not in promise.traits:
                continue
            sets = [(run, sum(bool(child.runs) for child in run.children)) for run in promise.runs]
            for run, ran in sets:
                if ran and (ran < promise.kin or run.how != "ok"):
                    yield f"{ran} of {promise.kin} children of an atomic job ran: {promise}: {run}"
            whole = sum(ran == promise.kin for _, ran in sets)
            ended_by_others = promise.died or promise.expires < math.inf or promise.number in self._dead
            if promise.kin and whole != bool(promise.ended_well) and not ended_by_others:
                yield f"{whole} sets of children of an atomic job ran, {promise}{_runs(promise)}"

    def _callbacks(self) -> Iterator[str]:
        for batch in sorted(self._ledger.closed):
            runs = self._ledger.callbacks.get(batch, [])
            if not runs:
                yield f"batch {batch} has no callback"
            for run, later in itertools.pairwise(runs):
                if not self._ledger.disturbed(run.process, run.began, later.began):
                    yield f"batch {batch} has two callbacks: {run}, {later}"
            for promise in self._promises:
                counted = "unique-replace" not in promise.traits  # it may have replaced a job outside of the batch
                if runs and promise.within == batch and promise.ended_well and counted:
                    ended = min(run.ended for run in promise.ended_well)
                    if ended > runs[0].began and len(promise.ended_well) == 1 and not promise.died:
                        yield f"batch {batch} was complete at {runs[0].began:.3f}, before {promise}{_runs(promise)}"

    def _chains(self) -> Iterator[str]:
        for promise in self._promises:
            before = self._link_before(promise)
            if before is not None and promise.runs:
                ended = min((run.ended for run in before.ended_well), default=math.inf)
                if promise.runs[0].began < ended:
                    yield f"a link ran before the one before it: {promise}: {promise.runs[0]}; {before}"

    def _ticks(self) -> Iterator[str]:
        for slot, runs in self._ledger.slots.items():
            for run, later in itertools.pairwise(runs):
                if not self._ledger.disturbed(run.process, run.began, later.began):
                    yield f"slot {slot} fired twice: {run}, {later}"
        newest, now = max(self._ledger.slots, default=0), self._fleet.server.time()
        if newest < now - 4 * TICKS_S:
            yield f"no slot fired since {newest}, and now it is {now:.0f}"

    def _left(self) -> Iterator[str]:
        """After the fleet has ended, nothing of it is in the broker."""
        left = self._fleet.server.contents()
        for name, payloads in sorted(left.queues.items()):
            jobs = [payload for payload in payloads if b'"class":"tick"' not in payload]
            if jobs:
                yield f"queue {name} holds {len(jobs)} jobs: {jobs[0]!r}"
        yield from (f"jobs in progress of {identity}: {jobs}" for identity, jobs in sorted(left.in_progress.items()))
        yield from (f"line {line} holds {number} jobs" for line, number in sorted(left.lines.items()))
        yield from (f"outbox {to} holds {number} pushes" for to, number in sorted(left.outboxes.items()))
        if left.groups:
            yield f"groups left: {left.groups}"
        for kind, jobs in ("retries", left.retries), ("scheduled jobs", left.scheduled):
            if jobs:
                yield f"{len(jobs)} {kind}: {jobs[0]!r}"


def _runs(promise: Promise) -> str:
    return "".join(f"; {run}" for run in promise.runs) or "; it never began"


def numbers_in(payload: bytes) -> list[int]:
    first = simplejson.loads(payload)["args"][0]
    return first if isinstance(first, list) else [first]
