"""One process of several works, the others stand by."""
