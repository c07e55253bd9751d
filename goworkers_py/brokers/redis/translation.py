"""What Redis, redis-py and OpenSSL say when something fails, as errors of ours that say what to do."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator, Sequence
from typing import Any

import redis

from goworkers_py.brokers.redis.access import refusal
from goworkers_py.core.errors import (
    BrokerError,
    BrokerFull,
    BrokerRefused,
    BrokerUnavailable,
    BrokerUnreachable,
    ConfigError,
    NoSuchDatabase,
)

# Error replies of a server that cannot serve now but will: a replica after a failover, a server that loads its data,
# is out of memory or of replicas, runs a long script, or cannot write its disk.
_TEMPORARY = re.compile(
    r"\b(READONLY|LOADING|MASTERDOWN|NOREPLICAS|OOM|BUSY|TRYAGAIN|CLUSTERDOWN|MISCONF|UNBLOCKED|"
    # redis-py has classes for some and takes the word off their text
    r"ReadOnlyError|BusyLoadingError|MasterDownError|OutOfMemoryError|TryAgainError|ClusterDownError)\b"
)
_FULL = re.compile(r"\b(OOM|OutOfMemoryError)\b")
# After these another server may answer better: connect anew. A primary without replicas may be one that fell silent,
# was replaced, and does not know it yet.
_ELSEWHERE = re.compile(
    r"\b(READONLY|LOADING|MASTERDOWN|NOREPLICAS|UNBLOCKED|ReadOnlyError|BusyLoadingError|MasterDownError)\b"
)

# redis-py's words, and ours of sentinels, when there is not even a connection.
_CONNECTING = re.compile(r"(Error|Timeout)( -?\d+)? connecting to |0 of \d+ sentinels answer")

# What a server says of a client's certificate that it does not accept, or misses.
_ALERT = re.compile(r"ALERT_(\w*CERTIFICATE\w*|UNKNOWN_CA|HANDSHAKE_FAILURE)")
_THEIR_CERTIFICATE = (
    "the address must name the host as the certificate does, and ?ssl_ca_certs=FILE the authority that signed it"
)
_OUR_CERTIFICATE = "a client certificate that it accepts is named by ?ssl_certfile=FILE&ssl_keyfile=FILE"


def translated(error: BaseException, keys: Sequence[Any] = ()) -> BaseException:
    """The driver's exceptions as ours; anything else (a signal, an exception thrown into the thread) as it is.

    `keys` are those that the command named: the server does not say which of them it is about.
    """
    if isinstance(error, BrokerError) or not isinstance(error, redis.RedisError | OSError):
        return error
    if isinstance(error, redis.AuthenticationError | redis.exceptions.AuthorizationError):
        return BrokerRefused(f"the server refused the login: {error}")
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return BrokerRefused(
                f"the server's certificate is not accepted: {cause.verify_message}; {_THEIR_CERTIFICATE}"
            )
        if isinstance(cause, ssl.SSLError) and _ALERT.search(str(cause)):
            return BrokerRefused(f"the server does not accept our certificate: {cause.reason}; {_OUR_CERTIFICATE}")
    if isinstance(error, redis.ResponseError):
        return _error_reply(error, keys)
    return BrokerUnavailable(str(error) or type(error).__name__)


def unreachable(error: redis.RedisError | OSError) -> BaseException:
    """An error that came up while a connection was made. A server that accepted the connection, and then has no room
    for it or hangs up, can be reached."""
    ours = translated(error)
    no_connection = _CONNECTING.match(str(error)) and not any(isinstance(e, ssl.SSLError) for e in _causes(error))
    return BrokerUnreachable(str(ours)) if type(ours) is BrokerUnavailable and no_connection else ours


def _error_reply(error: redis.ResponseError, keys: Sequence[Any]) -> BrokerError:
    told = _told(error)
    if _FULL.search(told):
        return BrokerFull(str(error))
    if _TEMPORARY.search(told):
        return BrokerUnavailable(str(error) or type(error).__name__)
    if "DB index is out of range" in told:
        return NoSuchDatabase(
            "the server has no database of the number at the end of the address in `redis`: "
            "name another one, or raise `databases` in the server's configuration"
        )
    return BrokerRefused(refusal(told, keys) or str(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """What redis-py met when it says that it cannot connect."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _told(error: BaseException) -> str:
    """Class and text: Redis 6 wraps what went wrong inside a script into a longer text."""
    return f"{type(error).__name__} {error}"


def is_better_elsewhere(reply: Any) -> bool:
    return isinstance(reply, redis.ResponseError) and bool(_ELSEWHERE.search(_told(reply)))


def is_of_another_type(reply: Any) -> bool:
    return isinstance(reply, redis.ResponseError) and "WRONGTYPE" in str(reply)  # before 7 a script's is wrapped


def hung_up(error: BaseException) -> BrokerUnavailable | None:
    """A server that does not accept our certificate hangs up, and may be gone before we read why."""
    if any(isinstance(cause, ssl.SSLEOFError | ConnectionResetError) for cause in _causes(error)):
        return BrokerUnavailable(f"{error}; {_OUR_CERTIFICATE}")
    return None


def check_files(sample: Any) -> None:
    """Those of certificates: without them every connection would fail, with words that only OpenSSL understands."""
    for name in ("ca_certs", "ca_path", "certfile", "keyfile"):
        path = getattr(sample, name)
        if path and not os.access(path, os.R_OK):
            raise ConfigError(f"redis: ssl_{name} names {path}, which cannot be read")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tried = "ssl_ca_certs"
    try:
        if sample.ca_certs:
            context.load_verify_locations(sample.ca_certs)
        tried = "ssl_certfile and ssl_keyfile"
        if sample.certfile or sample.keyfile:
            # Never asks the terminal for the password of a key.
            context.load_cert_chain(sample.certfile or "", sample.keyfile, sample.certificate_password or "")
    except OSError as error:  # SSLError is one
        raise ConfigError(f"redis: {tried} cannot be used: {error}") from None
