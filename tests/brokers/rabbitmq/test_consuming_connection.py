"""The connection that consumes stays up, or another one takes its place, whatever comes or does not come over it."""

from __future__ import annotations

import struct
from contextlib import closing

import pika  # type: ignore[import-untyped]
import pytest
from harness import Process, job, payloads
from pika import data  # type: ignore[import-untyped]

from goworkers_py.core.outcome import DONE

pytestmark = pytest.mark.server


def test_a_job_with_headers_that_pika_cannot_read_holds_up_no_other_job(
    me: Process, rabbit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    me.publish(job(1))

    def encode(pieces: list[bytes], headers: object) -> int:
        pair = b"\x04sent" + b"T" + struct.pack(">Q", 1767312000000)  # a time in milliseconds: the year 57974
        pieces.append(struct.pack(">I", len(pair)) + pair)
        return len(pieces[-1])

    with closing(pika.BlockingConnection(pika.URLParameters(rabbit_url))) as connection, monkeypatch.context() as patch:
        channel = connection.channel()
        patch.setattr(data, "encode_table", encode)
        channel.basic_publish("", "q", job(2), pika.BasicProperties(headers={"sent": 0}))
    me.publish(job(3))
    taken = me.consume(3)
    assert payloads(taken) == [job(1), job(2), job(3)]
    assert me.settle(*((one, DONE) for one in taken)) == [True] * 3
