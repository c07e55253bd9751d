"""Typed messages: a class with fields, a channel and the code that runs for each message.

`api`: sends and receives typed messages, see `App.send` and `App.receive`.
`payload`: how the messages of one class become bodies, and back: their fields, in a version, by a codec.
`receiver`: receives the messages of one channel in the background of any program.
`typed_message`: messages that resolve themselves: a class with fields, a channel and the code that runs for each
message.
"""
