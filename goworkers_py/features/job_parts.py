"""What features add to a job. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

from goworkers_py.features.groups.job import AggregatedJob


class FeatureJob(AggregatedJob):
    pass
