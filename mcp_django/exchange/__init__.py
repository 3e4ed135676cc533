"""One request being answered: who asks, the Django request that hooks are given, and the means to reach the client.

Imports the protocol, the database room and what stands below them. What a site offers it asks of the site it is given.
"""
