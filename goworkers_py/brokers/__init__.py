"""The contracts of a broker, and a folder for each implementation."""
