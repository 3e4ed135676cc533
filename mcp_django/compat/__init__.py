"""Private parts of other projects that we cannot do without, each in one place. May import ``types`` and ``conf``.

The docstring of each function names the private part, the versions that it was seen with, and the public way that it
stands in for. Each has a test in ``tests/compat`` that fails when the part changes.
"""
