"""The address of the server, with the password of `broker_password_file`, if there is one."""

from __future__ import annotations

from goworkers_py.brokers.address import address_of as address_of
