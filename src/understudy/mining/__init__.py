"""Mining: find text like a task's in a corpus without labels, as SentAugment does."""
