"""Formats on the wire: JSON, payloads, messages, the record of a process. Bytes in, values out."""
