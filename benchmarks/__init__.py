"""Measurements against other software; nothing here is a test."""
