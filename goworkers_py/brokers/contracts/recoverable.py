"""Leases: which processes live, and how the jobs of dead processes are recovered.

An identity has a lease before it consumes. Its first beat makes the lease, each later beat renews it. An identity may
be declared dead when its lease has expired by the broker's clock, or earlier when its process has certainly ended. The
step that declares it dead also looks at its lease. After that step the identity can neither beat nor consume, and any
process that recovers moves its jobs.

A lease lives for `config.timing.lease_s` after the last beat. For every verb, also of the other parts, an expired lease
is the same as no lease.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb may be called again after that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.values import dataclass
from goworkers_py.policy.consequences import taken
from goworkers_py.policy.poison import RecoveryDecision

# For so long after the death of an owner, the broker knows that it was declared dead, and recoveries look at its lists:
# a process that was frozen must not go on under its old identity.
GONE_FOR_S = 86_400


@dataclass(frozen=True, slots=True)
class Presence:
    """A process describes itself by this in each beat."""

    identity: str
    queues: Mapping[str, int]  # each queue, and how many of its jobs the process can have begun
    process: str = ""  # the fixed name that the process claims, if any
    alone: str = ""  # the name of the suspect that the process runs alone now, if any
    trouble: str = ""  # why the process fetches no jobs now, if it does not
    # An owner of the places of blocks of code, see `api.block_owner`, in whatever program: no list of processes shows
    # it, and it has no jobs to recover.
    blocks: bool = False


@dataclass(frozen=True, slots=True)
class Beat:
    """The broker's answer to a beat."""

    server_time: float  # epoch seconds
    # False: the lease had expired, was missing, or did not hold what the last beat had written. Then the caller trusts
    # no expired lease for a while: the broker may have lost writes. At the first beat of an identity the caller ignores
    # this field.
    kept: bool
    proof: str  # what this beat has written into the lease; it stays there until the next beat


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """A live process, as it described itself in its last beat. Release 0.1.0 tells neither version nor features.

    `beat` stores both beside the presence: `__version__` of `core.version`, and `SPEAKS` of `policy.known_needs`.
    """

    identity: str
    queues: Collection[str]
    version: str = ""
    speaks: Collection[str] = ()  # the features that it knows

    def __str__(self) -> str:
        return f"{self.identity} (version {self.version})" if self.version else f"{self.identity} (before 0.2.0)"


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job that is in progress under a dead identity."""

    queue: str
    owner: str
    payload: bytes
    # False: the owner cannot have begun the job. An owner begins the jobs of a queue in the order consumed. So True for
    # the oldest jobs in progress of each queue, as many as `Presence.queues` of the last beat says. A job that this
    # recovery has moved still counts as one of them. After a recovery that was broken off, the next one may count anew
    # among the jobs that are left: True for a job that was not begun does little harm, see `poison`.
    begun: bool
    # The name of the suspect that the owner ran alone, see `poison`; empty if it ran none. Also empty when another
    # process died together with the owner, see `deaths`.
    alone: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """A job that was taken from a dead identity and moved as `decision` says."""

    queue: str
    owner: str
    payload: bytes  # as it was in progress
    decision: RecoveryDecision


class DeclaredDead(Exception):
    """This identity was declared dead; its jobs are recovered by others. The process needs a new identity."""


# Decides about a job of a dead process. Without an `error` the job goes to the back of its queue with the payload of
# the decision, and counts as nothing. With an `error` it goes to the dead jobs, and counts as processed and as failed;
# dead jobs beyond the limits are deleted. The effects of the decision happen in the same step. It does not raise: if it
# does, that is a fault of the caller, and `recover` may raise the same. Hold no lock while you call it: it takes time,
# and may ask the broker.
Judge = Callable[[FoundJob], RecoveryDecision]


def left_behind(found: FoundJob) -> RecoveryDecision:
    """The judgement of a process about its own jobs, when it leaves."""
    return RecoveryDecision(found.payload, effects=taken(found.payload, found.queue, found.owner))


class Recoverable(Protocol):
    """One thread at a time calls `beat` for one identity. Any thread may call the other verbs."""

    deaths: int = 0  # how many identities `recover` and `declare_dead` have declared dead, since this object was made

    def beat(self, presence: Presence) -> Beat:
        """Makes the lease of an identity, or renews it, and stores its `presence`.

        A lease that is missing or has expired is made again, unless the identity was declared dead. Raises DeclaredDead
        when it was. Raises BrokerRefused when another live process has the fixed name that `presence` claims; then no
        lease is made or renewed. The message says `'NAME' is in use by IDENTITY`. A name is free again when its holder
        has left, was declared dead, or has no lease. A holder whose process has certainly ended may keep its name until
        it is declared dead.
        """

    def live_processes(self) -> list[LiveProcess]:
        """Returns what every process that has a lease said of itself in its last beat."""

    def recover(self, identity: str, judge: Judge, proof: str | None) -> Iterator[Recovered]:
        """Declares processes dead, and moves all jobs of dead identities to where `judge` says.

        `identity` is the process that calls; its own jobs are not recovered. Dead are, besides the identities that were
        declared dead before:

        - processes that have ended on this machine (`certainly_dead` of `core.proc`), whatever their leases and the
          proof say;
        - with a valid `proof`, processes whose lease has expired.

        `proof` is the one that the last beat of `identity` returned. It is valid while the lease of `identity` holds
        it, and for half the life of a lease after that beat. If it is not valid, the broker may have lost writes, and
        nobody is declared dead because of a lease. None: leases are not looked at. An empty proof is always valid: it
        is for a caller that has no lease.

        The result is an iterator, and the work is done while the caller iterates. Each job is yielded after it was
        moved, so an outage in the middle of a recovery hides no moved job. Each job is moved in one step, and only if
        it is still in progress under the dead identity: several processes may recover at the same time. When the
        caller stops iterating, the jobs that are left stay in progress, and the next call recovers them.
        """

    def declare_dead(self, identity: str, proof: str | None, owners: Collection[str]) -> None:
        """Declares those of these owners dead that `recover` would declare dead, and moves no jobs: a later `recover`
        does. `identity` and `proof` are as there."""

    def end_blocks(self, identity: str) -> None:
        """Ends an identity of blocks, which has no places any more. It is never used again."""

    def lost(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Returns those of these deliveries that are not in progress any more. Of several with equal bytes that were
        fetched under one identity, it returns as many as are missing."""

    def leave(self, identity: str, silent: bool = True) -> Iterator[Recovered]:
        """Ends an identity: it is declared dead, and its jobs in progress go to the back of their queues.

        The result is an iterator, and the work is done while the caller iterates. If the caller stops, other processes
        recover the jobs that are left. An identity that the broker does not know yields nothing.

        `silent` says that no other thread of this process will ask the broker anything. Then the identity is forgotten
        when its last job is moved: a later beat makes a lease for it, as for a new identity. Without `silent` it is
        remembered as dead, because a `consume` of another thread may still reach the broker. A broker that cannot know
        whether an earlier `consume` still arrives remembers it too.

        When the caller stops early, or is killed, the identity stays dead, and `recover` treats the jobs that are left
        like those of any dead identity.
        """
