"""The fields of payloads that are nested too deep."""

from __future__ import annotations

import pytest

from goworkers_py.wire.deep import MOST_LEVELS, fields_of


@pytest.mark.parametrize("levels", [10, 150, 900, 100_000])
def test_a_list_has_no_fields_however_deep_it_is(levels: int) -> None:
    assert fields_of(b"[" * levels + b'"pyworkers"' + b"]" * levels) == {}


@pytest.mark.parametrize("levels", [98, 150, MOST_LEVELS - 1])
def test_a_job_has_its_fields_although_it_is_nested_too_deep(levels: int) -> None:
    assert fields_of(b'{"jid":"j","args":' + b"[" * levels + b"]" * levels + b"}")["jid"] == "j"


@pytest.mark.parametrize("levels", [MOST_LEVELS, 900, 20_000])  # some Pythons read that many levels
def test_a_job_of_more_levels_than_ours_has_no_fields_whatever_python_reads(levels: int) -> None:
    assert fields_of(b'{"jid":"j","args":' + b"[" * levels + b"]" * levels + b"}") == {}
