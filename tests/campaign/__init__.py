"""The kill campaign: a stack that is killed at named points by seed, and an oracle outside it that judges.

The oracle is two fsynced files the product knows nothing of: the embedding server's log of every
request, and the client's list of what was acknowledged to it.
"""
