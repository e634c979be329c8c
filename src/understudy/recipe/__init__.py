"""The recipe: a whole run as one frozen, validated object."""
