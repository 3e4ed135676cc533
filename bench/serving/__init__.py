"""How many requests a server answers, beside other servers of the protocol that do the same."""
