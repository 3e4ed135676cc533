"""How much callers may do in a time: budgets, the counters behind them, and failed authentication."""
