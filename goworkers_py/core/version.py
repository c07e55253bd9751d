"""The version of this distribution; setup.cfg reads it here, without importing the rest."""

__version__ = "0.9.0"
