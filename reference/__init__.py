"""The pages, tables and files that are generated from the program. `make reference` writes them."""
