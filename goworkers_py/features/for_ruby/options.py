"""The section [echo] of the configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

from goworkers_py.config.option_rows import FeatureSection, option
from goworkers_py.config.parsers import one_of, text, yes_or_no
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.values import dataclass
from goworkers_py.features.parts import Queues

if TYPE_CHECKING:
    from goworkers_py.config.options import Config


@dataclass(frozen=True, slots=True)
class EchoConfig(FeatureSection):
    """The section [echo]."""

    kind: ClassVar[str] = "echo"

    queue: str = option(
        "", text, "queue of a Ruby process that acknowledges jobs of Ruby's batches and locks when they have ended here"
    )
    batches: bool = option(True, yes_or_no, "echo the jobs of Ruby's batches: yes or no")
    locks: str = option(
        "echo",
        one_of("echo", "native", "none"),
        "jobs that hold a lock of Ruby: echo them; free the locks of sidekiq-unique-jobs here (native); or none",
    )

    def check_queues(self, queues: Collection[str]) -> None:
        if self.queue in queues:
            raise ConfigError(
                f"[echo] queue: {self.queue} is a queue of this process, which would run each job again; name a "
                "queue that only Ruby works"
            )


def _elsewhere(config: Config) -> Mapping[str, str]:
    return {config.section_of(EchoConfig).queue: "start a Ruby process that works it: it holds echoes"}


QUEUES = Queues(elsewhere=_elsewhere)
