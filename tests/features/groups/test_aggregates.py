"""The functions that aggregate groups."""

from __future__ import annotations

import json

import pytest

from goworkers_py.config.job_options import CodeOptions
from goworkers_py.core.errors import UnknownJob
from goworkers_py.features.groups.aggregates import NAME, Aggregates, aggregated_in, lacking_in
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.wire.message import Message

GATHERS = CodeOptions(group_max_size=5)


def test_an_aggregation_job_is_run_by_the_function_of_its_class() -> None:
    registry = Registry()
    gathers, alone = JobSpec("Gathers", print), JobSpec("Alone", print)
    gathers.of_features[NAME] = JobSpec("Gathers", sorted)
    for spec in (gathers, alone):
        registry.add(spec)
    aggregates = Aggregates(registry)
    assert aggregated_in(registry) == [gathers]
    assert aggregates.find(_message("Gathers")).function is sorted
    for name in ("Alone", "Unknown"):
        with pytest.raises(UnknownJob, match="no function aggregates the groups"):
            aggregates.find(_message(name))


def test_a_class_that_gathers_groups_without_such_a_function_is_told() -> None:
    registry = Registry()
    lacks, has = JobSpec("Lacks", print, own=GATHERS), JobSpec("Has", print, own=GATHERS)
    has.of_features[NAME] = JobSpec("Has", sorted)
    for spec in (lacks, has, JobSpec("Alone", print)):
        registry.add(spec)
    assert [*lacking_in(registry)] == ["Lacks has group_max_size and no @print.aggregate: its groups wait for ever"]


def _message(name: str) -> Message:
    return Message(json.dumps({"class": name, "jid": "1", "args": []}).encode(), "q")
