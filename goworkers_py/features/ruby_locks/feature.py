"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class RubyLocksFeature(Feature):
    """Locks of the gem sidekiq-unique-jobs are taken and freed here."""

    name = "ruby_locks"


FEATURE = RubyLocksFeature()
