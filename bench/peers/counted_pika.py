"""Consumes and acknowledges each message, as the tutorial of pika does, and runs nothing."""

import counted
import pika

PREFETCH = 250

connection = pika.BlockingConnection(pika.URLParameters(counted.URL))
channel = connection.channel()
channel.basic_qos(prefetch_count=PREFETCH)


def receive(channel, method, properties, body) -> None:  # type: ignore[no-untyped-def]
    channel.basic_ack(method.delivery_tag)
    counted.noop()


channel.basic_consume("default", receive)
channel.start_consuming()
