"""Output folders: names, hashes, recipe.yaml, result.json, what may be resumed."""
