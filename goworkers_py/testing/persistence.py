"""The public path of the suite that each persistence of a delay queue must pass, see `features.delays.testing`."""

from goworkers_py.features.delays.testing import PersistenceContract, SharedPersistenceContract

__all__ = ["PersistenceContract", "SharedPersistenceContract"]
