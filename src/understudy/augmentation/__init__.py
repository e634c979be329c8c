"""TinyBERT's data augmentation: words replaced by what a masked language model or word vectors offer."""
