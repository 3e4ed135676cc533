"""What pages about tokens and grants share, in the admin, where a person agrees to a client, and on everybody's own.

It imports any of the rooms below it.
"""
