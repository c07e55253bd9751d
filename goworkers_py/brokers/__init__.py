"""The contracts of a broker in `contracts`, and a folder for each implementation: `memory`, `redis`, `rabbitmq`,
`disque`, and `two_servers` for a queue service with a Redis beside it.

- `broker`: the base class of all. `open_broker`: finds the one of an address.
- `absent`: stands in for the parts that a queue service without a store lacks. `forwarded`: the members that a broker
  asks of another one.
- `address`: the address with the password from its file. `bell`: ends a wait at several sockets.
"""
