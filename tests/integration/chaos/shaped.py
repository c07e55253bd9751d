"""The jobs of `shaped_jobs`, in the processes under chaos."""

from __future__ import annotations

import goworkers_py as workers
from chaos.shaped_jobs import declare
from chaos.shaped_notes import noted

JOBS = declare(workers.app, noted)
