"""Mining: find text similar to a task's in a corpus without labels, as SentAugment does."""
