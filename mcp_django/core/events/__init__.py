"""Carries what a transaction changed to every process: change sets, controls, the publisher, and the buses.

It knows no principal: the hub decides which clients are notified.
"""
