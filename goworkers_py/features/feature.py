"""The entry of a feature: what a feature may give to the engine.

Each part is a method that imports inside and returns the part, so that a part is loaded when it is first needed, and
type checkers see it. A feature overrides the methods of the parts that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.api.client import Client
    from goworkers_py.brokers.contracts.admin import Checks
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.cli.base import LocalSettings
    from goworkers_py.config.option_rows import FeatureSection
    from goworkers_py.config.options import Config
    from goworkers_py.features.in_process import InProcess, Recovering, WorkerProcess
    from goworkers_py.features.parts import CommandLine, Copies, Figures, ForTests, Moves, Pushes, Queues, Whereabouts
    from goworkers_py.policy.our_work import OurWork
    from goworkers_py.policy.registry import Registry
    from goworkers_py.runtime.daemon import AnyLauncher, PartitionWork
    from goworkers_py.runtime.plan import Plan
    from goworkers_py.runtime.service import Service
    from goworkers_py.web.site.table import FeaturePages


PartMaker = Callable[[Any], object]  # of the broker


class SourceFlag(NamedTuple):
    """A flag of the commands that run jobs, or check which ones would run."""

    name: str  # of the parameter
    metavar: str
    about: str


class Feature:
    """The base class of every entry. Its methods mean: the feature has no such part."""

    name: ClassVar[str]  # that of its folder

    # The features that its files build on, by their names: it imports them, or asks for their parts. The others it does
    # not know: what it does for all of them goes through their entries.
    uses: ClassVar[tuple[str, ...]] = ()

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

    def queues(self) -> Queues:
        from goworkers_py.features.parts import Queues

        return Queues()

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

    # --- moves and ends

    def moves(self) -> Moves:
        from goworkers_py.features.parts import Moves

        return Moves()

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

    def of_daemon(self, launchers: Sequence[AnyLauncher], config: Config) -> Collection[Service]:
        """Threads for a whole process, with these launchers, one for each partition, and this configuration. They start
        after the launchers, and stop before them."""
        return ()

    def launcher(self, work: PartitionWork) -> AnyLauncher | None:
        """Works a partition in the place of one launcher: it makes launchers by turns, each with a broker behind a
        fence, and starts and stops them. None: the partition has a launcher, as ever."""
        return None

    # --- brokers

    def memory(self) -> Callable[[State], MemoryPart] | None:
        """Makes its part of the state of a memory broker."""
        return None

    def redis(self) -> RedisPart | None:
        """Its scripts, and how its ties and effects become arguments of them."""
        return None

    # --- tests

    def for_tests(self) -> ForTests:
        from goworkers_py.features.parts import ForTests

        return ForTests()

    # --- pushes

    # Options of a job, or fields of its payload, that make a push the business of this feature.
    push_marks: ClassVar[frozenset[str]] = frozenset()

    def pushes(self) -> Pushes:
        from goworkers_py.features.parts import Pushes

        return Pushes()

    # The option with which a job does not begin by itself: one job runs in the place of several.
    gathered_by: ClassVar[str] = ""

    # Members of the payload's field `pyworkers` that bind this one job: a job that people make of it has neither them
    # nor the needs of the same names.
    members_of_one_job: ClassVar[tuple[str, ...]] = ()
    # Members of the payload's field `pyworkers` that are made from the arguments of the job.
    members_of_arguments: ClassVar[tuple[str, ...]] = ()

    def copies(self) -> Copies:
        from goworkers_py.features.parts import Copies

        return Copies()

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

    # --- people

    def command_line(self) -> CommandLine:
        from goworkers_py.features.parts import CommandLine

        return CommandLine()

    def sections(self) -> Collection[type[FeatureSection]]:
        """The sections [KIND] and [KIND:NAME] of the configuration."""
        return ()

    commands: ClassVar[tuple[str, ...]] = ()  # of `pyworkers`; `queue purge` is one of the engine's group `queue`

    def command(self, name: str) -> click.Command:
        """One of `commands`."""
        raise NotImplementedError

    def whereabouts(self) -> Whereabouts:
        from goworkers_py.features.parts import Whereabouts

        return Whereabouts()

    def access(self) -> FeatureAccess | None:
        """The rules of access that its own keys and commands need; None: it has none of its own."""
        return None

    def checks(self, inspector: Inspector, work: OurWork | None) -> Checks:
        """Checks of the doctor, by the names by which people skip them. `work`: that of this program, where its code
        could be imported."""
        return {}

    def figures(self) -> Figures:
        from goworkers_py.features.parts import Figures

        return Figures()

    def pages(self) -> FeaturePages | None:
        """Views and actions of the web site, and the facts on the page of a job."""
        return None
