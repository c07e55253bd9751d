"""`python -m goworkers_py.cli` is the command `pyworkers`."""

from __future__ import annotations

from goworkers_py.cli import main

if __name__ == "__main__":
    main(prog_name="pyworkers")
