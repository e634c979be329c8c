"""Teachers and students: loading them and checking that they fit."""
