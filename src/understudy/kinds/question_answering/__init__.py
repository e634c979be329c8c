"""The kind question answering."""
