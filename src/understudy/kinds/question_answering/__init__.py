"""The question-answering kind."""
