"""Who calls, and what they may do: tokens, principals, scopes, and the Django request that hooks are given."""
