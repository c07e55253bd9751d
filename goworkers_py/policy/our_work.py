"""What this program works, for checks that look for jobs which nobody works."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field

from goworkers_py.core.values import dataclass
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.message import Message


@dataclass(frozen=True, slots=True)
class OurWork:
    """The queues and the job classes of this configuration."""

    queues: Collection[str]
    knows: Callable[[Message], bool]  # is code registered for the class of this message?
    registry: Registry
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # see `Queues.elsewhere` of `features.parts`
