"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class RubyStatusFeature(Feature):
    """States of jobs are written where the gem sidekiq-status looks for them."""

    name = "ruby_status"


FEATURE = RubyStatusFeature()
