"""What changed, from the transaction that changed it to every process: change sets, the publisher, and the buses.

Imports settings and types alone. It knows no principal: who may hear of a change is decided above, in push.
"""
