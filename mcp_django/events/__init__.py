"""Carries what a transaction changed to every process: change sets, controls, the publisher, and the buses.

It may import content, conf and types, and nothing else of ours. It knows no principal: ``push`` decides who is
notified.
"""
