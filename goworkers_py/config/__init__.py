"""The options: their tables, their parsers, and the loader that reads file, environment and flags."""
