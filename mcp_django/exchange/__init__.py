"""One request being answered: who asks, the Django request that hooks are given, and the means to reach the client.

Beside it are the words of credentials, which models need too: scopes, the form of tokens, and rates.

It imports core, protocol and the packages below them. It asks the site that it is given what the server offers.
"""
