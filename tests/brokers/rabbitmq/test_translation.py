"""The errors of pika, in our words."""

from __future__ import annotations

import ssl

import pytest
from pika import exceptions
from pika.adapters.utils.connection_workflow import (
    AMQPConnectionWorkflowFailed,
    AMQPConnectorAMQPHandshakeError,
    AMQPConnectorSocketConnectError,
    AMQPConnectorTransportSetupError,
)

from goworkers_py.brokers.rabbitmq.translation import translated
from goworkers_py.core.errors import BrokerRefused, BrokerUnreachable

NOBODY = AMQPConnectorSocketConnectError(ConnectionRefusedError(111, "Connection refused"))
_not_verified = ssl.SSLCertVerificationError(1, "certificate verify failed")
_not_verified.verify_message = "unable to get local issuer certificate"  # set by the handshake
STRANGER = AMQPConnectorTransportSetupError(_not_verified)
WRONG_PASSWORD = AMQPConnectorAMQPHandshakeError(exceptions.ProbableAuthenticationError("ACCESS_REFUSED"))


@pytest.mark.parametrize(
    ("one", "told"),
    [(STRANGER, "the server's certificate is not accepted: "), (WRONG_PASSWORD, "the server refused the login: ")],
)
@pytest.mark.parametrize("server_is_last", [False, True])
def test_of_several_addresses_of_a_name_one_that_has_a_server_is_told(
    one: Exception, told: str, server_is_last: bool
) -> None:
    """localhost is ::1 and 127.0.0.1, and the server listens on one of them. No later try would help."""
    tries = [NOBODY, one] if server_is_last else [one, NOBODY]
    error = translated(exceptions.AMQPConnectionError(AMQPConnectionWorkflowFailed(tries)))
    assert isinstance(error, BrokerRefused)
    assert str(error).startswith(told)


def test_a_server_that_listens_on_no_address_of_its_name_is_unreachable() -> None:
    assert isinstance(translated(AMQPConnectionWorkflowFailed([NOBODY, NOBODY])), BrokerUnreachable)
