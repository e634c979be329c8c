"""What the commands do, each stage a function from a recipe to an output folder."""
