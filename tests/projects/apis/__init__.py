"""Compares what agents get of the APIs of projects that others wrote with what clients of HTTP get."""
