"""The options: their table, how they are read from text, and where they are read from."""
