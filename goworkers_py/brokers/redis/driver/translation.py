"""Translates the errors of Redis, redis-py and OpenSSL into ours, which say what to do."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator, Sequence
from typing import Any

import redis

from goworkers_py.brokers.redis.server.refusals import refusal
from goworkers_py.core.errors import (
    BrokerError,
    BrokerFull,
    BrokerRefused,
    BrokerUnavailable,
    BrokerUnreachable,
    ConfigError,
    Fenced,
    NoSuchDatabase,
)

# `re` compiles these texts when the first error comes.

# Error replies of a server that cannot serve now but will again: it is a replica after a failover, loads its data, is
# out of memory, has too few replicas, runs a long script, or cannot write its disk.
_TEMPORARY = (
    r"\b(READONLY|LOADING|MASTERDOWN|NOREPLICAS|OOM|BUSY|TRYAGAIN|CLUSTERDOWN|MISCONF|UNBLOCKED|"
    # redis-py has classes for some of these errors and removes the word from the text
    r"ReadOnlyError|BusyLoadingError|MasterDownError|OutOfMemoryError|TryAgainError|ClusterDownError)\b"
)
_FULL = r"\b(OOM|OutOfMemoryError)\b"
# After these the connection is closed, because the next one may lead to another server. A primary without replicas may
# have been replaced after an interruption, and not know it yet; so may a node that is cut off from its cluster.
_ELSEWHERE = (
    r"\b(READONLY|LOADING|MASTERDOWN|NOREPLICAS|UNBLOCKED|CLUSTERDOWN|ReadOnlyError|BusyLoadingError|MasterDownError|"
    r"ClusterDownError|MovedError)\b"
)
# Of a node of a cluster, to a program that takes it for a single server.
_OF_A_CLUSTER = r"\b(MovedError|AskError|ClusterCrossSlotError)\b"

# The texts of redis-py, and of `sentinel` and `cluster`, when no connection can be made.
_CONNECTING = r"(Error|Timeout)( -?\d+)? connecting to |0 of \d+ (sentinels|nodes) "

# A server's alert about a client certificate that it does not accept or that is missing.
_ALERT = r"ALERT_(\w*CERTIFICATE\w*|UNKNOWN_CA|HANDSHAKE_FAILURE)"
_THEIR_CERTIFICATE = (
    "in the address, write the host name of the certificate, and in ?ssl_ca_certs=FILE the authority that signed it"
)
_NO_TLS = "the server takes the connection and speaks no TLS: if its port has none, write redis:// and not rediss://"
_PERHAPS_TLS = "if the port speaks TLS, write rediss:// and not redis://"
_OUR_CERTIFICATE = "name a client certificate that the server accepts: ?ssl_certfile=FILE&ssl_keyfile=FILE"


def translated(error: BaseException, keys: Sequence[Any] = ()) -> BaseException:
    """The driver's exception as ours. Any other exception (a signal, one thrown into the thread) is returned as it is.

    `keys` are the keys of the command, for the text: the server does not say which of them it refuses.
    """
    if isinstance(error, BrokerError) or not isinstance(error, redis.RedisError | OSError):
        return error
    if isinstance(error, redis.AuthenticationError | redis.exceptions.AuthorizationError):
        problem = f"the server refused the login: {str(error).rstrip('.')}"
        return _at_login(f"{problem}; check user and password of the address, or broker_password_file")
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _at_login(f"the server's certificate is not accepted: {cause.verify_message}; {_THEIR_CERTIFICATE}")
        if isinstance(cause, ssl.SSLError) and re.search(_ALERT, str(cause)):
            return _at_login(f"the server does not accept our certificate: {cause.reason}; {_OUR_CERTIFICATE}")
    if isinstance(error, redis.ResponseError):
        return _error_reply(error, keys)
    return BrokerUnavailable(str(error) or type(error).__name__)


def _at_login(why: str) -> BrokerRefused:
    error = BrokerRefused(why)
    error.at_login = True
    return error


def refused_connection(error: redis.ResponseError) -> BaseException:
    """Translates an error reply to one of the commands with which a connection begins, such as SELECT."""
    ours = translated(error)
    if isinstance(ours, BrokerRefused):
        ours.at_login = True
    return ours


def unreachable(error: redis.RedisError | OSError) -> BaseException:
    """Translates an error in making a connection. A server that accepted the connection and then closed it, or had no
    room for it, is reachable: its error is no BrokerUnreachable."""
    ours = translated(error)
    if type(ours) is not BrokerUnavailable:
        return ours
    if any(map(_is_without_tls, _causes(error))):
        reached = BrokerUnreachable(f"{ours}; {_NO_TLS}")
        reached.advised = True  # the server runs
        return reached
    no_connection = re.match(_CONNECTING, str(error)) and not any(isinstance(e, ssl.SSLError) for e in _causes(error))
    return BrokerUnreachable(str(ours).rstrip(".")) if no_connection else ours


def _is_without_tls(cause: BaseException) -> bool:
    """Redis waits for the rest of a command. Another server answers something at once that is no TLS."""
    if isinstance(cause, ssl.SSLError) and cause.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
        return True
    return isinstance(cause, TimeoutError) and "handshake" in str(cause)


def reset_at_first(error: redis.RedisError | OSError) -> BrokerUnavailable | None:
    """A port with TLS resets a connection that begins without."""
    if any(isinstance(cause, ConnectionResetError) for cause in _causes(error)):
        return BrokerUnavailable(f"{error}; {_PERHAPS_TLS}")
    return None


def _error_reply(error: redis.ResponseError, keys: Sequence[Any]) -> BrokerError:
    error_text = _error_text(error)
    if is_fenced(error):
        return Fenced("another process leads by now, or the lease of this leader has ended: nothing was written")
    if re.search(_FULL, error_text):
        return BrokerFull(str(error))
    if re.search(_TEMPORARY, error_text):
        return BrokerUnavailable(str(error) or type(error).__name__)
    if re.search(_OF_A_CLUSTER, error_text):
        return BrokerRefused("the server is a node of a Redis Cluster: write redis+cluster://host:port/NAMESPACE")
    if "DB index is out of range" in error_text:
        return NoSuchDatabase(
            "the server has no database with the number at the end of the address: "
            "write another number, or raise `databases` in the server's configuration"
        )
    return BrokerRefused(refusal(error_text, keys) or str(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, from which redis-py made its own error."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _error_text(error: BaseException) -> str:
    """Class and text of the error. Redis 6 wraps an error inside a script into a longer text."""
    return f"{type(error).__name__} {error}"


def is_better_elsewhere(reply: Any) -> bool:
    return isinstance(reply, redis.ResponseError) and bool(re.search(_ELSEWHERE, _error_text(reply)))


def is_fenced(reply: Any) -> bool:
    return isinstance(reply, redis.ResponseError) and "FENCED " in str(reply)  # before 7, a script's error is wrapped


def is_of_another_type(reply: Any) -> bool:
    return isinstance(reply, redis.ResponseError) and "WRONGTYPE" in str(reply)  # `in`: before 7, a script's is wrapped


def hung_up(error: BaseException) -> BrokerUnavailable | None:
    """A server that does not accept our certificate closes the connection, perhaps before we have read its alert."""
    if any(isinstance(cause, ssl.SSLEOFError | ConnectionResetError) for cause in _causes(error)):
        return BrokerUnavailable(f"{error}; {_OUR_CERTIFICATE}")
    return None


def check_files(sample: Any) -> None:
    """Raises ConfigError for a certificate file that cannot be used, in clearer words than OpenSSL's."""
    for name in ("ca_certs", "ca_path", "certfile", "keyfile"):
        path = getattr(sample, name)
        if path and not os.access(path, os.R_OK):
            raise ConfigError(f"the server's address: ssl_{name} names {path}, which cannot be read")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tried = "ssl_ca_certs"
    try:
        if sample.ca_certs:
            context.load_verify_locations(sample.ca_certs)
        tried = "ssl_certfile and ssl_keyfile"
        if sample.certfile or sample.keyfile:
            # With a password given, even an empty one, OpenSSL does not ask the terminal for it.
            context.load_cert_chain(sample.certfile or "", sample.keyfile, sample.certificate_password or "")
    except OSError as error:  # SSLError is one
        raise ConfigError(f"the server's address: {tried} cannot be used: {error}") from None
