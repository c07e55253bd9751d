"""The parts of an entry of which the engine asks several things of one kind. Each part is a value: a feature names
those of its functions that take part; the others do nothing. The method of the same name in `features.feature` gives
it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.admin.own_places import OwnPlaces
    from goworkers_py.api.app import App
    from goworkers_py.api.push_part import PushPart
    from goworkers_py.api.request import PushRequest
    from goworkers_py.brokers.broker import Broker
    from goworkers_py.cli.recovery_flag import RecoveryFlag
    from goworkers_py.config.job_options import CodeOptions
    from goworkers_py.config.options import Config, QueueConfig
    from goworkers_py.core.effect import Effect, Push, Tie
    from goworkers_py.core.job_state import StateWord
    from goworkers_py.core.line_owner import LineOwner
    from goworkers_py.policy.consequences import JobMove
    from goworkers_py.policy.registry import QueueHandler, Registry
    from goworkers_py.testing.steps import CrashWay, StepKind
    from goworkers_py.web.gauges import OfFleet, OfProcesses
    from goworkers_py.wire.job_record import JobRecord
    from goworkers_py.wire.message import Message
    from goworkers_py.wire.properties import Properties

T = TypeVar("T")
Fields = Mapping[str, Any]  # of a payload
Follow = Callable[[Fields, "JobMove"], Iterable["Effect"]]
# The effects of a move that people make, of the payload and the new state.
FollowMove = Callable[[bytes, "StateWord"], "tuple[Effect, ...]"]
NOTHING: Mapping[str, Any] = MappingProxyType({})

# The functions of a part where the feature has none.


def _none(*_: Any) -> None:
    return None


def _no_more(*_: Any) -> tuple[()]:
    return ()


def _empty(*_: Any) -> Mapping[str, Any]:
    return NOTHING


def _unchanged(value: T, *_: Any) -> T:
    return value


def _no_part(*_: Any) -> Any:
    raise NotImplementedError


def _no_travel(*_: Any) -> Callable[[], object]:
    return _none


class Pushes(NamedTuple):
    """The pushes of jobs that are the business of a feature. The client asks, by the options and fields in the entry's
    `push_marks`, and so do all who push something again or later."""

    # Makes the part for the pushes of one client that have a mark.
    of_client: Callable[[Callable[[], Broker]], PushPart] = _no_part
    # Raises ArgumentError for options that do not go together, of a job class: those that were given now, and all
    # options of the job.
    check_options: Callable[[Mapping[str, Any], Mapping[str, Any], str], None] = _none
    # Raises ArgumentError for a push, before something is made of it: also for what is pushed later.
    check_push: Callable[[PushRequest], None] = _none
    # The tie of a push that waits as its payload until it is relayed. True: another tie gives it another goal than its
    # queue.
    tie_of_stored: Callable[[bytes, bool], Tie | None] = _none
    # The tie of such a push that gives the job another goal than this queue.
    goal_of_stored: Callable[[bytes, str], Tie | None] = _none
    # Gives the pushes that go in the place of those that a tie of this feature has refused, where nobody can be told:
    # they were held back, and their callers have returned.
    refused_late: Callable[[Sequence[Push], Callable[[], Broker]], Sequence[Push]] = _no_more
    # The push where no time passes, as in a test: nothing of this feature lets its job wait.
    at_once: Callable[[Push], Push] = _unchanged
    # For people: why a push of a job of this class, with these options, may not have happened, and what shows more.
    why_not_pushed: Callable[[str, Mapping[str, Any]], tuple[str, str] | None] = _none


class Moves(NamedTuple):
    """The effects of a move or an end of a job, in the step of the move. `policy.consequences` asks, for a worker, a
    recovery and people who delete the job alike."""

    # By the member of the payload's field `pyworkers`: the effects of each move and end of a job that has it, from the
    # payload and the move alone.
    followers: Mapping[str, Follow] = NOTHING
    # The effects of moves that people make of jobs which have not ended before, as far as they follow from the
    # configuration. Those of a recovery and of the end of a run are in `Feature.recovering` and `InProcess.ended`.
    of_people: Callable[[Config], FollowMove | None] = _none
    # The effects of giving back a job, of a queue and an owner that leaves, from the payload alone. For the job of an
    # owner that has died, `Feature.recovering` is asked.
    left_behind: Callable[[bytes, str, str], tuple[Effect, ...]] = _no_more
    # The payload of a job that dies now, with what must be known of its death when it is retried by hand.
    buried: Callable[[bytes], bytes] = _unchanged
    # More effects of the end of a job that another job has ended, as the members of a group are. The text is for
    # people.
    ended_without_run: Callable[[Fields, StateWord, str], Iterable[Effect]] = _no_more
    # The names of the sets of jobs to which a job belongs, and which are cancelled as a whole. No two sets ever have
    # one name, nor a set and a job.
    belongs_to: Callable[[Fields], Collection[str]] = _no_more


class Copies(NamedTuple):
    """A job that people push again: a new job that is like an earlier one. `admin.again` asks."""

    ties: Callable[[Fields], Collection[Tie]] = _no_more
    # Changes of the fields, now: what is not as in the first job.
    changes: Callable[[Message, float], Mapping[str, Any]] = _empty


class Queues(NamedTuple):
    """Queues that are the business of a feature."""

    # The queue of a section [queue:NAME], with what follows from the options of the feature. The text names the place
    # for errors: raises ConfigError for options that do not go together.
    checked: Callable[[QueueConfig, str], QueueConfig] = _unchanged
    # Finds the code that runs every job of a queue, and the options for these jobs.
    handler: Callable[[QueueConfig, Registry], tuple[QueueHandler, CodeOptions] | None] = _none
    # The payload of the job that a bare body of another program is: of the body, the queue, when it was fetched (as
    # payloads have it), and what the program has said beside the body.
    job_of_body: Callable[[bytes, str, float, Properties | None], bytes | None] = _none
    # Queues that only other programs work; each with what to do, for people, when no process does.
    elsewhere: Callable[[Config], Mapping[str, str]] = _empty


class Whereabouts(NamedTuple):
    """Where jobs are that are in no queue and in no state of the broker: for who looks for a job, or shows a line."""

    places: Callable[[Broker], OwnPlaces | None] = _none
    # Reads the record of a job by its jid, as far as the feature keeps records of jobs on this broker.
    records: Callable[[Broker], Callable[[str], JobRecord | None] | None] = _none
    # The owner of a line in which the feature parks jobs; None for any other line.
    line_owner: Callable[[str], LineOwner | None] = _none


class CommandLine(NamedTuple):
    """Flags of commands of the engine."""

    flags_of_push: Collection[click.Option] = ()  # of `enqueue`, each with the name of an option of a push
    flags_of_recovery: Collection[RecoveryFlag] = ()  # of `recover`


class Figures(NamedTuple):
    # Fields of `Stats`, by their names. A dataclass beside the values of the feature has them too, for type checkers.
    of_stats: Callable[[Inspector], Mapping[str, Any]] = _empty
    gauges: Collection[OfProcesses | OfFleet] = ()  # metrics for Prometheus


class ForTests(NamedTuple):
    # Called before the clock of a test block goes forward. The function that it returns is called after it, and pushes
    # what has fallen due meanwhile.
    before_travel: Callable[[App, Broker], Callable[[], object]] = _no_travel
    # The verbs of the feature's part of a broker that are steps of a job's code, for `workers.testing.crash_points`.
    steps: Mapping[str, StepKind] = NOTHING
    # The ways in which `crash_points` runs a job that the feature resumes.
    crash_ways: Sequence[CrashWay] = ()
