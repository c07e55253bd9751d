"""The options of queues that features have. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

from goworkers_py.features.plain_lists.options import PlainListOptions


class FeatureQueueOptions(PlainListOptions):
    __slots__ = ()
