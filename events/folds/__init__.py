"""Folds: what each kind of aggregate is, as the fold of its events. Pure."""
