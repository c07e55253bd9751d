"""The entry of a feature: what a feature may give to the engine.

Each part is a method that imports inside and returns the part, so that a part is loaded when it is first needed, and
type checkers see it. A feature overrides the methods of the parts that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.admin.own_places import OwnPlaces
    from goworkers_py.api.app import App
    from goworkers_py.api.client import Client
    from goworkers_py.api.push_part import PushPart
    from goworkers_py.api.request import PushRequest
    from goworkers_py.brokers.broker import Broker
    from goworkers_py.brokers.contracts.admin import Checks
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.cli.base import LocalSettings
    from goworkers_py.cli.recovery_flag import RecoveryFlag
    from goworkers_py.config.job_options import CodeOptions
    from goworkers_py.config.option_rows import FeatureSection
    from goworkers_py.config.options import Config, QueueConfig
    from goworkers_py.core.effect import Effect, Push, Tie
    from goworkers_py.core.job_state import StateWord
    from goworkers_py.core.line_owner import LineOwner
    from goworkers_py.features.in_process import InProcess, Recovering, WorkerProcess
    from goworkers_py.policy.consequences import JobMove
    from goworkers_py.policy.our_work import OurWork
    from goworkers_py.policy.registry import QueueHandler, Registry
    from goworkers_py.runtime.daemon import AnyLauncher, Daemon, PartitionWork
    from goworkers_py.runtime.plan import Plan
    from goworkers_py.runtime.service import Service
    from goworkers_py.testing.steps import CrashWay, StepKind
    from goworkers_py.web.gauges import OfFleet, OfProcesses
    from goworkers_py.web.site.table import FeaturePages
    from goworkers_py.wire.job_record import JobRecord
    from goworkers_py.wire.message import Message
    from goworkers_py.wire.properties import Properties


# The effects of a move that people make, of the payload and the new state.
FollowMove = Callable[[bytes, "StateWord"], "tuple[Effect, ...]"]
Follow = Callable[[Mapping[str, Any], "JobMove"], Iterable["Effect"]]  # of the fields of the payload
PartMaker = Callable[[Any], object]  # of the broker


class SourceFlag(NamedTuple):
    """A flag of the commands that run jobs, or check which ones would run."""

    name: str  # of the parameter
    metavar: str
    about: str


class Feature:
    """The base class of every entry. Its methods mean: the feature has no such part."""

    name: ClassVar[str]  # that of its folder

    def __init_subclass__(cls) -> None:
        cls.name = cls.__module__.rpartition(".")[2]

    # --- what type checkers must see. `make reference` writes it into `features.job_options`, `features.job_parts`,
    # `features.queue_options`, `features.verbs` and `features.message_parts`.

    options: ClassVar[str] = ""  # the name of the class in its `job_options.py`; empty: it has no such options
    options_of_code: ClassVar[str] = ""  # of options that only the job's own code may give
    options_of_push: ClassVar[str] = ""  # of options that only a push may give
    job: ClassVar[str] = ""  # the name of the class of a job's methods in its `job.py`
    verbs: ClassVar[str] = ""  # the name of the class of the inspector's verbs in its `admin.py`
    queue_options: ClassVar[str] = ""  # that of its options in sections [queue:NAME], in its `options.py`
    message: ClassVar[str] = ""  # the name of the class of a message's properties in its `message.py`
    # The needs that this feature gives to jobs, each with the first release that knows it, see `wire.needs`.
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({})

    # --- plans

    def planned(self, plan: Plan, client: Callable[[], Client]) -> object | None:
        """What a process with this plan does for the feature beside running jobs, for `plan.of_features`. Raises
        ConfigError where the declarations and the configuration do not go together. `client` pushes to the broker of
        the plan."""
        return None

    # Another source of the configuration of a process than its file, environment and flags: a flag that names it.
    source: ClassVar[SourceFlag | None] = None

    def configured_from(self, name: str, local: LocalSettings) -> Config:
        """The configuration of a process that was started with that flag."""
        raise NotImplementedError

    def warnings(self, registry: Registry) -> Iterator[str]:
        """What people should know of the declarations of a program. It is logged at the start."""
        return iter(())

    def summary(self, plans: Sequence[Plan]) -> Iterator[str]:
        """Lines about these plans, for people who check a configuration. Raises ConfigError, too."""
        return iter(())

    # --- queues

    def checked_queue(self, queue: QueueConfig, place: str) -> QueueConfig:
        """The queue of a section [queue:NAME], with what follows from the options of this feature. Raises ConfigError
        for options that do not go together."""
        return queue

    def handler_of(self, queue: QueueConfig, registry: Registry) -> tuple[QueueHandler, CodeOptions] | None:
        """What runs every job of a queue that is the business of this feature, and the options for these jobs."""
        return None

    def job_of_body(self, body: bytes, queue: str, at: float, properties: Properties | None) -> bytes | None:
        """The payload of the job that a bare body of another program is. `at`: when it was fetched, as payloads have
        it. `properties`: what the program has said beside the body. None: this feature reads no bodies."""
        return None

    # --- jobs of a class

    def marks_class(self, options: Mapping[str, Any]) -> bool:
        """Whether jobs with these options of `@job` are the business of this feature, whatever their payload says."""
        return False

    def needs_of_class(self, options: Mapping[str, Any]) -> Collection[str]:
        """Which of `needs` the jobs of a class with these options have."""
        return ()

    def code(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
        """The function that runs the jobs of a class with these options of `@job`: this one, or another one around it.
        Raises ConfigError for a function that cannot run them."""
        return function

    def check(self, registry: Registry, config: Config) -> None:
        """Raises ConfigError, or warns, when the declarations of a program and its configuration do not go together."""

    # --- the code of jobs

    def check_function(self, function: Callable[..., Any]) -> None:
        """Raises ConfigError for a function below `@job` that can never run as a job."""

    def resumes(self, function: Callable[..., Any]) -> bool:
        """Whether runs of such a function end early, and later ones go on there. Then `InProcess.resume` gets what the
        function has returned, and the jobs have all `needs` of this feature."""
        return False

    def belongs_to(self, fields: Mapping[str, Any]) -> Collection[str]:
        """The names of the sets of jobs to which a job with these fields belongs, and which are cancelled as a whole.
        No two sets ever have one name, nor a set and a job."""
        return ()

    # --- moves and ends

    def followers(self) -> Mapping[str, Follow]:
        """By the member of the payload's field `pyworkers`: the effects of a move or an end of a job that has it, from
        the payload and the outcome alone. A worker, a recovery and people who delete the job get the same."""
        return {}

    def follow_moves(self, config: Config) -> FollowMove | None:
        """The effects of moves that people make of jobs which have not ended before, as far as they follow from the
        configuration and not from the payload alone. `recovering` and `in_process` give those of a recovery and of the
        end of a run."""
        return None

    def buried(self, raw: bytes) -> bytes:
        """The payload of a job that dies now, with what must be known of its death when it is retried by hand."""
        return raw

    def left_behind(self, raw: bytes, queue: str, owner: str) -> tuple[Effect, ...]:
        """The effects of giving back the job of a process that leaves, from the payload alone. The job of a process
        that has died is asked about in `recovering`. Those of `followers` come in both cases."""
        return ()

    def ended_without_run(self, fields: Mapping[str, Any], state: StateWord, reason: str) -> Iterator[Effect]:
        """More effects of the end of a job that another job has ended, as the members of a group are; `reason` is for
        people."""
        return iter(())

    def recovering(self, registry: Registry, config: Config, wall: Callable[[], float]) -> Recovering | None:
        """The part that knows more of the jobs of a dead process than their payloads say."""
        return None

    # --- a process that runs jobs

    # Fields of the payload that decide whether the job may begin: a job that has begun, and goes on later, loses them.
    fields_until_begun: ClassVar[frozenset[str]] = frozenset()

    # What is counted in `Shared.counters`, by its name there: the metric, and what it is, for people.
    counters: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({})

    def in_process(self, process: WorkerProcess) -> InProcess | None:
        """The part that looks after the runs of one process."""
        return None

    def of_daemon(self, daemon: Daemon, config: Config) -> Collection[Service]:
        """Threads for a whole process, with this configuration. They start after its partitions, and stop before
        them."""
        return ()

    def launcher(self, work: PartitionWork) -> AnyLauncher | None:
        """Works a partition in the place of one launcher: it makes launchers by turns, each with a broker behind a
        fence, and starts and stops them. None: the partition has a launcher, as ever."""
        return None

    # --- brokers

    def tie_of_stored(self, payload: bytes, goes_elsewhere: bool) -> Tie | None:
        """The tie of a push that waits as its payload until it is relayed. `goes_elsewhere`: another tie gives the job
        another goal than its queue."""
        return None

    def goal_of_stored(self, payload: bytes, queue: str) -> Tie | None:
        """The tie of such a push that gives the job another goal than this queue."""
        return None

    def memory(self) -> Callable[[State], MemoryPart] | None:
        """Makes its part of the state of a memory broker."""
        return None

    def redis(self) -> RedisPart | None:
        """Its scripts, and how its ties and effects become arguments of them."""
        return None

    # --- test modes

    def before_travel(self, app: App, broker: Broker) -> Callable[[], object]:
        """Called before the clock of a test block goes forward. The function is called after it, and pushes what has
        fallen due meanwhile."""
        return lambda: None

    def at_once(self, push: Push) -> Push:
        """The push where no time passes: nothing of this feature lets its job wait."""
        return push

    # --- pushes

    # Options of a job, or fields of its payload, that make a push the business of this feature.
    push_marks: ClassVar[frozenset[str]] = frozenset()

    def push(self, broker: Callable[[], Broker]) -> PushPart:
        """The part for the pushes of one client that have a mark."""
        raise NotImplementedError

    def refused_late(self, pushes: Sequence[Push], broker: Callable[[], Broker]) -> Sequence[Push]:
        """What is pushed in the place of pushes that a tie of this feature has refused, where nobody can be told: they
        were held back, and their callers have returned."""
        return ()

    # The option with which a job does not begin by itself: one job runs in the place of several.
    gathered_by: ClassVar[str] = ""

    def check_push(self, asked: PushRequest) -> None:
        """Raises ArgumentError for a push that the options of this feature do not go together with. Called where there
        is a mark, before something is made of the push: for what is pushed later, too."""

    def named_lock(self, name: str, waits: bool) -> Mapping[str, Any]:
        """Options of a push by which no other job has a lock of this name until the job has ended: another push is
        skipped, or it waits for that end. The first of them is the one that asks for the lock."""
        return {}

    def check_options(self, own: Mapping[str, Any], merged: Mapping[str, Any], job_class: str) -> None:
        """Raises ArgumentError for options that do not go together: `own` was given now, and `merged` has all options
        of the job. Called where there is a mark."""

    # --- its part of a broker

    contract: ClassVar[str] = ""  # the name of the class in its `contract.py`; empty: a broker needs no part for it
    # By that part, in the words of errors and of the table of brokers: "limits of jobs". Empty: nobody chooses a broker
    # by it, and what needs the part is left out where there is none.
    kept: ClassVar[str] = ""
    # Whether the part of a store serves the jobs of a queue service beside it, too.
    kept_beside: ClassVar[bool] = True

    def part(self, family: str) -> PartMaker | None:
        """Makes the part for a broker of this family, such as `redis`, out of that broker. None: there is no part for
        it. The part implements the contract."""
        return None

    def steps(self) -> Mapping[str, StepKind]:
        """The verbs of that part that are steps of a job's code, for `workers.testing.crash_points`."""
        return {}

    def crash_ways(self) -> Sequence[CrashWay]:
        """The ways in which `workers.testing.crash_points` runs a job that this feature resumes."""
        raise NotImplementedError

    # --- people

    def why_not_pushed(self, job_class: str, options: Mapping[str, Any]) -> tuple[str, str] | None:
        """Why a push of such a job may not have happened, and what shows more, for people."""
        return None

    # Members of the payload's field `pyworkers` that bind this one job: a job that people make of it has neither them
    # nor the needs of the same names.
    members_of_one_job: ClassVar[tuple[str, ...]] = ()
    # Members of the payload's field `pyworkers` that are made from the arguments of the job.
    members_of_arguments: ClassVar[tuple[str, ...]] = ()

    def ties_of_copy(self, fields: Mapping[str, Any]) -> Collection[Tie]:
        """The ties of a job with these fields that people push again."""
        return ()

    def changes_of_copy(self, first: Message, now: float) -> Mapping[str, Any]:
        """Changes of the fields of a job that people push again now: what is not as in the first one."""
        return {}

    def flags_of_recovery(self) -> Collection[RecoveryFlag]:
        """Flags of the command `recover`."""
        return ()

    def flags_of_push(self) -> Collection[click.Option]:
        """Flags of the command `enqueue`, each with the name of an option of a push."""
        return ()

    def sections(self) -> Collection[type[FeatureSection]]:
        """The sections [KIND] and [KIND:NAME] of the configuration."""
        return ()

    def queues_elsewhere(self, config: Config) -> Mapping[str, str]:
        """Queues that only other programs work; each with what to do, for people, when no process does."""
        return {}

    commands: ClassVar[tuple[str, ...]] = ()  # of `pyworkers`; `queue purge` is one of the engine's group `queue`

    def command(self, name: str) -> click.Command:
        """One of `commands`."""
        raise NotImplementedError

    def own_places(self, broker: Broker) -> OwnPlaces | None:
        """Where jobs wait that are neither in a queue nor in a state of the broker, for who looks for a job."""
        return None

    def line_owner(self, line: str) -> LineOwner | None:
        """The owner of a line in which this feature parks jobs; None for any other line."""
        return None

    def access(self) -> FeatureAccess | None:
        """The rules of access that its own keys and commands need; None: it has none of its own."""
        return None

    def record_reader(self, broker: Broker) -> Callable[[str], JobRecord | None] | None:
        """Reads the record of a job by its jid, as far as the feature keeps records of jobs on this broker."""
        return None

    def checks(self, inspector: Inspector, work: OurWork | None) -> Checks:
        """Checks of the doctor, by the names by which people skip them. `work`: that of this program, where its code
        could be imported."""
        return {}

    def figures(self, inspector: Inspector) -> Mapping[str, Any]:
        """Its fields of `Stats`, by their names."""
        return {}

    def gauges(self) -> Collection[OfProcesses | OfFleet]:
        """Metrics for Prometheus."""
        return ()

    def pages(self) -> FeaturePages | None:
        """Views and actions of the web site, and the facts on the page of a job."""
        return None
