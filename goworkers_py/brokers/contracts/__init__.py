"""The contracts of a broker: all that the rest of the program knows of one."""
