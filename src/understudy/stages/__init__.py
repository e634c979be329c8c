"""The stages behind the commands: each is a function from a recipe to an output folder."""
