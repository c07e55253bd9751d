"""The commands of `pyworkers`, by what they are about; `goworkers_py.cli` puts them together."""
