"""The pages, a module each: which data they show, and which changes they make."""
