"""Recorded provider traffic, tricky schemas, and the rules providers are known to refuse by."""
