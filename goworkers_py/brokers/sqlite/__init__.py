"""Storage in a file of SQLite."""
