"""Output folders: names, hashes, recipe.yaml, result.json, and which runs can be resumed."""
