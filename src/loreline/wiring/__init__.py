"""Wiring: reads the environment, picks the concretes, and puts them together. Nothing else does."""
