"""The part of a feature in a process that runs jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.brokers.broker import Broker
    from goworkers_py.brokers.contracts.recoverable import FoundJob
    from goworkers_py.config.options import Config
    from goworkers_py.core.command import Obey
    from goworkers_py.core.delivery import Delivery
    from goworkers_py.core.effect import Effect
    from goworkers_py.core.job_state import StateWord
    from goworkers_py.core.outcome import Outcome
    from goworkers_py.links.chain import Run
    from goworkers_py.links.perform import CalledJob
    from goworkers_py.policy.registry import Registry
    from goworkers_py.runtime.controls import Controls
    from goworkers_py.runtime.plan import Plan
    from goworkers_py.runtime.running.rungs import Rung
    from goworkers_py.runtime.service import BrokerService
    from goworkers_py.runtime.shared import Shared
    from goworkers_py.wire.message import Message


class Recovering(Protocol):
    def recovered(self, found: FoundJob, error: BaseException | None) -> tuple[Effect, ...]:
        """The effects of taking a job from a dead process; `error`: it is buried because of that."""


class WorkerProcess(NamedTuple):
    """A process that runs jobs, as its features see it."""

    plan: Plan
    broker: Broker
    shared: Shared
    running: Callable[[], Iterable[Delivery]]  # the deliveries whose jobs run now; from any thread
    # The outcome with all effects of this end of a run: for a feature that moves a job in a step of its own.
    ended: Callable[[Message, Outcome], Outcome]
    shown: Callable[[Iterable[Delivery]], None]  # to be called when the fleet sees that these jobs run
    # Whether runs that can end early are to do so. A run asks at each place where it can end.
    is_stopping: Callable[[], bool]
    parts: Mapping[str, InProcess]  # of the features before this one, by their names: a feature may build on another
    of_code: Broker  # the same broker, for what the code of a job asks: `crash_points` sees each call
    obey: Obey | None = None  # takes commands to this process; None: it is part of another program
    controls: Callable[[], Controls] | None = None  # called while jobs run; None: in test modes, which have no threads


# The effect of the good end of a job with this jid.
GoodEnd = Callable[[str], "Effect"]
ShortCut = Callable[[Mapping[str, Any]], GoodEnd | None]


class StandIn(NamedTuple):
    """Code that runs in the place of a job's own, in a chain of its own."""

    mark: str  # of rungs: for the jobs that have it
    registry: Registry  # finds the code
    link: Callable[[Run], Run]  # around the code, inside of all others


class InProcess:
    """The part of a feature in one process. All threads share it. Its methods mean: nothing is to be done."""

    def markers(self) -> Mapping[str, Callable[[Message], Collection[str]]]:
        """By the member of the payload's field `pyworkers`: which marks of rungs a job with it has."""
        return {}

    def rungs(self) -> Mapping[str, Rung]:
        """By their names in `features.RUNGS`."""
        return {}

    def short_cuts(self, speaks: Collection[str]) -> Mapping[str, ShortCut]:
        """By the member of the payload's field `pyworkers`: finds, by the fields of the payload, jobs for which there
        is nothing to do but one effect of their good end, and that effect: they run past the rungs. It is asked for
        jobs with that member, without a mark and without another field of a rung. It answers None for a job that has
        other members too, or needs what is not in `speaks`. Each queue has its own. Each job asks, so it is quick."""
        return {}

    def never_begins(self, message: Message) -> StateWord | None:
        """The state in which a job ends because it is not to begin any more; None for any other. Asked for jobs that
        end with another one, as the members of a group do: they pass no rungs."""
        return None

    def shown(self, deliveries: Iterable[Delivery]) -> None:
        """The fleet sees now that these jobs run."""

    def stand_in(self) -> StandIn | None:
        """Code that runs in the place of that of some jobs."""
        return None

    def resume(self, job: CalledJob) -> Outcome:
        """Goes on with what the function of a job has returned, see `Feature.resumes`."""
        raise NotImplementedError

    def interrupted(self, message: Message, outcome: Outcome) -> Outcome:
        """The outcome of a run that was to end early, because its job was cancelled: `message.cancel` says more."""
        return outcome

    def ended(self, message: Message, outcome: Outcome) -> Outcome:
        """The outcome of a run, with the effects that follow from what this feature keeps of it under its name, see
        `Delivery.of_features`, or from a field of the payload for which it has a rung."""
        return outcome

    def given_back(self, delivery: Delivery) -> tuple[Effect, ...]:
        """The effects of giving back a job that was not run, or not to its end."""
        return ()

    def settled(self, effects: Sequence[Effect]) -> None:
        """A run was settled with these effects."""

    def owner_died(self) -> None:
        """Another process has died, and its jobs were recovered."""

    def look(self) -> None:
        """Does at once what its threads do now and then: for test modes, which have no threads."""

    def take(self, config: Config) -> Iterator[str]:
        """Takes over what a new configuration says, and names the options that are in force now."""
        return iter(())

    def running(self) -> Mapping[str, int]:
        """Figures of the runs that are under way, for the report of this process."""
        return {}

    def answers(self) -> Sequence[str]:
        """The names of the commands of people that this process answers: the fleet sees them."""
        return ()

    def services(self) -> Sequence[BrokerService]:
        """Its threads."""
        return ()


def never_begins(parts: Iterable[InProcess], message: Message) -> StateWord | None:
    """As all parts say."""
    return next((state for part in parts if (state := part.never_begins(message)) is not None), None)
