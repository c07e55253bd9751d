"""The process proves that it lives, and tells how it is."""
