"""Servers that tests run: scripted ones, and real ones in processes of their own."""
