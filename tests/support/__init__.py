"""Helpers of all tests: peers over every transport, the published schemas, data."""
