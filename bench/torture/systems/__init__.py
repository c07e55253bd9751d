"""The systems, in the order of the table."""

from bench.torture.systems.ours import Ours
from bench.torture.systems.sidekiq import Sidekiq
from bench.torture.systems.system import System

SYSTEMS: dict[str, System] = {system.name: system for system in (Ours(), Sidekiq())}
