"""Private parts of other projects that we cannot do without, each in one place.

The docstring of each function names the private part, the versions that were tested, and the public way that it
replaces. Each has a test in ``tests/core/compat`` that fails when the part changes.
"""
