"""What is kept in a file of SQLite."""
