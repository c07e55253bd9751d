"""Connections to Redis: commands out, replies in, errors in our words."""
