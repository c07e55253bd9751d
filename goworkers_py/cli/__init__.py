"""The command line: one file for each group of commands."""

from goworkers_py.cli.pyworkers import main

__all__ = ["main"]
