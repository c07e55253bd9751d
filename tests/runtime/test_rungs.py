"""The order of the rungs around a run."""

from __future__ import annotations

import pytest

from goworkers_py.core.outcome import DONE, Outcome
from goworkers_py.features import RUNGS
from goworkers_py.links.chain import Run
from goworkers_py.runtime.running import rungs
from goworkers_py.runtime.running.rungs import Rung, Rungs
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message

MARK = frozenset({"here"})


def noting(name: str, called: list[str]) -> Rung:
    def noted(run: Run, message: Message) -> Outcome:
        called.append(name)
        return run(message)

    return Rung(noted, marks=MARK)


def never(message: Message) -> Outcome:
    raise AssertionError("the code of the job ran")


def test_a_rung_stands_where_the_list_has_its_name_and_a_name_that_is_not_there_is_an_error() -> None:
    called: list[str] = []

    def done(message: Message) -> Outcome:
        return DONE

    names = ("lock", "group", "limits", "quarantine")
    rungs = Rungs({name: noting(name, called) for name in names}, RUNGS, done, {})
    assert rungs.run_of(MARK)(Message(b'{"class":"J","args":[],"jid":"j"}', "q")) is DONE
    assert called == ["quarantine", "group", "lock", "limits"]
    with pytest.raises(ValueError, match=r"no place in the order of all rungs, features.RUNGS: limit$"):
        Rungs({"limit": noting("limit", called)}, RUNGS, done, {})


def test_a_job_in_whose_place_other_code_runs_passes_the_rungs_that_are_for_such_jobs() -> None:
    called: list[str] = []

    def done(message: Message) -> Outcome:
        called.append("other code")
        return DONE

    by_name = {
        "expiry": noting("expiry", called),
        "limits": noting("limits", called)._replace(of_stand_ins=False),
    }
    rungs = Rungs(by_name, RUNGS, never, {"other": done})
    assert rungs.run_of(MARK | {"other"})(Message(b'{"class":"J","args":[],"jid":"j"}', "q")) is DONE
    assert called == ["expiry", "other code"]


@pytest.mark.parametrize(("number", "pauses"), [(b"1", []), (b"1e999", [rungs.BACK_AGAIN_S])])
def test_a_job_pauses_before_it_is_tried_later_where_ruby_cannot_read_it(
    monkeypatch: pytest.MonkeyPatch, number: bytes, pauses: list[float]
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(rungs.machine, "sleep", slept.append)
    raw = b'{"class":"J","args":[%s],"jid":"j","at":1}' % number
    later = rungs.refused(Message(raw, "mail"), "its limits cannot be read", now=1_000.0)
    assert later.at == 1_000.0 + rungs.REFUSED_S
    assert payload.read(later.payload) == {**payload.read(raw.replace(b',"at":1', b"")), "queue": "mail"}
    assert slept == pauses
