"""The broker on Disque, a queue service that speaks the protocol of Redis."""
