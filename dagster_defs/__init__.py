"""Dagster: assets, checks, sensors and jobs that observe the log. Never in the data path."""
