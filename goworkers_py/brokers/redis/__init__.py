"""The broker on Redis. All that speaks Redis is here."""
