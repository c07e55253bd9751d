"""The systems, in the order of the table."""

from bench.torture.systems.celery import Celery
from bench.torture.systems.dramatiq import Dramatiq
from bench.torture.systems.go_programs import Asynq, GoWorkers
from bench.torture.systems.ours import Ours
from bench.torture.systems.rq import RQ
from bench.torture.systems.sidekiq import Sidekiq
from bench.torture.systems.system import System

ALL: tuple[System, ...] = (Ours(), Sidekiq(), GoWorkers(), Asynq(), Dramatiq(), RQ(), Celery())
SYSTEMS = {system.name: system for system in ALL}
