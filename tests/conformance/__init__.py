"""A project that is held against the official conformance suite; ``python -m tests.conformance`` does that."""
