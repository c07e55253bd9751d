from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from goworkers_py.admin.broker_table import broker_rows
from goworkers_py.brokers.broker import Capability, Reliability
from goworkers_py.brokers.open_broker import our_brokers
from goworkers_py.cli.pyworkers import main
from goworkers_py.features import FEATURES


@pytest.mark.parametrize("row", broker_rows(our_brokers()), ids=lambda row: row.title)
def test_each_of_our_brokers_says_what_it_can_lose(row) -> None:  # type: ignore[no-untyped-def]
    assert Reliability().worker_killed not in row.reliability


def test_the_command_lists_every_scheme_with_its_features() -> None:
    told = CliRunner().invoke(main, ["brokers", "--json"])
    rows = [json.loads(line) for line in told.output.splitlines()]
    assert {scheme for row in rows for scheme in row["schemes"]} >= our_brokers().keys()
    [disque] = [row for row in rows if "disque" in row["schemes"]]
    assert disque["features"]["order"] is False
    of_features = {feature.contract.lower() for feature in FEATURES if feature.kept}
    assert disque["features"].keys() == {*(one.name.lower() for one in Capability), *of_features}
    assert {"records", "locks", "limits"} <= of_features


def test_a_person_reads_what_is_lacking_and_what_can_be_lost() -> None:
    told = CliRunner().invoke(main, ["brokers"]).output
    assert "lacks" in told
    assert "loses when the server is killed" in told
