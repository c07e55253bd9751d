"""Commands that a process obeys while it runs."""
