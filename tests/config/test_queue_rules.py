"""The rules for a queue in serial mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from goworkers_py import ConfigError
from goworkers_py.config.loader import load
from goworkers_py.config.options import PoolConfig


def written(folder: Path, text: str) -> Path:
    file = folder / "conf.ini"
    file.write_text(text)
    return file


@pytest.mark.parametrize("said", ["", "concurrency = 1"])
def test_a_queue_in_serial_mode_has_one_thread(tmp_path: Path, said: str) -> None:
    config = load(written(tmp_path, f"[queue:q]\nmode = serial\n{said}\n"), environment={})
    assert [(queue.mode, queue.concurrency) for queue in config.queues] == [("serial", 1)]
    pool = PoolConfig.of_one(config.queues[0])
    assert (pool.serial, pool.concurrency) == (True, 1)
    of_flag = load(written(tmp_path, f"[queue:q]\nmode = serial\n{said}\n"), environment={}, queues=["q"])
    assert of_flag.queues == config.queues


def test_several_threads_for_a_queue_in_serial_mode_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "[queue:q]\nmode = serial\nconcurrency = 4\n")
    with pytest.raises(ConfigError, match=r"conf\.ini: \[queue:q\] concurrency is 4, but queue q has mode = serial"):
        load(file, environment={})
    file = written(tmp_path, "[queue:q]\nmode = serial\n")
    with pytest.raises(ConfigError, match=r"--queue q=4 is 4, but queue q has mode = serial"):
        load(file, environment={}, queues=["q=4"])


def test_a_queue_in_serial_mode_is_in_no_pool(tmp_path: Path) -> None:
    file = written(tmp_path, "[queue:q]\nmode = serial\n[pool:web]\nqueues = q, r\n")
    with pytest.raises(ConfigError, match=r"\[queue:q\] mode: a queue in serial mode has a thread of its own"):
        load(file, environment={})


def test_a_wrong_mode_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[queue:q\] mode .*threads.*serial"):
        load(written(tmp_path, "[queue:q]\nmode = cereal\n"), environment={})
