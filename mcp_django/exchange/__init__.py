"""One request being answered: who asks, the Django request that hooks are given, and the means to reach the client.

It imports db, protocol and the rooms below them. It asks the site that it is given what the server offers.
"""
