"""The only code, with `connection` and `embedded`, that talks to a server."""
