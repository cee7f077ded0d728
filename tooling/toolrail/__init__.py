"""Toolrail."""
