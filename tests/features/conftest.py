"""Tests of a feature may run against every broker, and against brokers on Redis."""

from __future__ import annotations

from contract_suite import *  # noqa: F403
from patient_pages import patient_pages  # noqa: F401
from program_fixtures import gems, go_binaries, has_sidekiq, ruby  # noqa: F401
from redis_brokers import broker, denied_server, make, own_broker, proxied  # noqa: F401
