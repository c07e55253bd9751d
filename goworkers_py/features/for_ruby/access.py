"""The access rules of what is done for Ruby."""

from __future__ import annotations

from goworkers_py.brokers.redis.server.access import FeatureAccess, Rules
from goworkers_py.config.options import Config
from goworkers_py.features.for_ruby.options import EchoConfig


def _frees_locks(config: Config) -> bool:
    return config.section_of(EchoConfig).locks == "native"


ACCESS = FeatureAccess(rules=(Rules("locks of sidekiq-unique-jobs", "hlen", "uniquejobs:*", _frees_locks),))
