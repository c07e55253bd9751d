"""Jobs and processes that the tests of pages show."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

import redis as redis_py

AT = 2_000_000_000.25
HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}"


def job(jid: str = "j1", job_class: str = "Mail", **fields: Any) -> str:
    told = {"class": job_class, "args": [1, {"to": "ada"}], "jid": jid, "queue": "mail", "retry": 5, **fields}
    return json.dumps(told)


def failed(jid: str = "j1", error: str = "Timeout", at: float = 1_700_000_000.0, **fields: Any) -> str:
    told = {"error_class": error, "error_message": "no answer", "failed_at": at, "retry_count": 2}
    return job(jid, **told, **fields)


def where(jid: str, **query: str) -> str:
    return "/job?" + urlencode({"jid": jid, **query}, errors="surrogatepass")


def in_retry(redis: redis_py.Redis, raw: str, at: float = AT) -> dict[str, str]:
    redis.zadd("retry", {raw: at})
    jid = json.loads(raw)["jid"]
    return {"jid": jid, "state": "retry", "key": f"{at!r}|{jid}"}


def sidekiq_process(redis: redis_py.Redis, identity: str = "web-1:42:ab12") -> None:
    info = {"hostname": "web-1", "started_at": time.time() - 60, "pid": 42, "tag": "shop", "concurrency": 5,
            "queues": ["mail"], "identity": identity, "version": "7.3.0"}  # fmt: skip
    redis.sadd("processes", identity)
    told = {"info": json.dumps(info), "busy": 2, "beat": time.time(), "quiet": "false", "rss": 50_000}
    redis.hset(identity, mapping=told)  # type: ignore[arg-type]
