"""The broker that spreads jobs over several servers."""
