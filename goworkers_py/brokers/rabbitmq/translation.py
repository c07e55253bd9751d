"""Translates the errors of pika, and the reasons for which RabbitMQ closes channels and connections, into ours."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from pika import exceptions  # type: ignore[import-untyped]

from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable, BrokerUnreachable

# Reply codes of AMQP. After these, the same request would be refused again.
_REFUSED = {403, 404, 405, 406, 501, 502, 503, 504, 530, 540}
_TIMED_OUT = "delivery acknowledgement on channel"


def translated(error: object) -> BrokerError:
    """`error` is what pika tells as the reason: an exception, mostly, which may wrap others."""
    if isinstance(error, BrokerError):
        return error
    causes = [*_causes(error)]
    known = [error for error in map(_known, causes) if error is not None]
    if known:
        # A host name may have several addresses: nobody listens on one, and the server on another refuses for good.
        return next((known_error for known_error in known if isinstance(known_error, BrokerRefused)), known[0])
    reason = next((str(cause) for cause in causes if isinstance(cause, OSError) and str(cause)), "")
    return BrokerUnavailable(reason or str(error) or type(error).__name__)


def _known(error: BaseException) -> BrokerError | None:
    match error:
        case ssl.SSLCertVerificationError():
            return BrokerRefused(
                f"the server's certificate is not accepted: {error.verify_message}; in the address, write the host "
                "name of the certificate, and in ?ssl_ca_certs=FILE the authority that signed it"
            )
        case exceptions.ProbableAuthenticationError() | exceptions.AuthenticationError():
            return BrokerRefused("the server refused the login: check user and password of the address")
        case exceptions.ProbableAccessDeniedError():
            return BrokerRefused("the server refused the virtual host: check the path of the address and permissions")
        case exceptions.ConnectionClosedByBroker() | exceptions.ChannelClosedByBroker():
            return of_reply(error.reply_code, error.reply_text)
        case exceptions.AMQPHeartbeatTimeout():
            return BrokerUnavailable("the server did not answer for two heartbeats")
        case ConnectionRefusedError():
            return BrokerUnreachable("connection refused")
    return None


def of_reply(code: int, text: str) -> BrokerError:
    if _TIMED_OUT in text:
        return BrokerUnavailable(
            f"{text}; a job ran longer than RabbitMQ waits for its end, and is delivered again: raise consumer_timeout "
            "in rabbitmq.conf above the longest run of a job; RabbitMQ 3.11.15 and later are asked for 30 days"
        )
    if code == 530 and "vhost" in text and "is down" in text:
        return BrokerUnavailable(text)
    return BrokerRefused(text) if code in _REFUSED else BrokerUnavailable(f"{code} {text}")


def _causes(error: object) -> Iterator[BaseException]:
    """The error and all that it wraps."""
    if isinstance(error, BaseException):
        yield error
        # pika has one more name for each layer: of the whole try to connect, and of a step of it.
        layers = (getattr(error, "exceptions", ()), getattr(error, "exception", None))
        inner = [part for part in (*error.args, *layers, error.__cause__) if part is not None]
        for part in inner:
            for deeper in part if isinstance(part, list | tuple) else [part]:
                yield from _causes(deeper)


def is_own_close(reason: object) -> bool:
    """Whether a channel was closed because we asked for that."""
    return isinstance(reason, exceptions.ChannelClosedByClient)
