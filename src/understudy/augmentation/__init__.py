"""TinyBERT's data augmentation: replaces words using a masked language model or word vectors."""
