"""What legacy clients leave in the database: sessions, stored streams, open questions, and a mailbox between processes.

Imports the models, events and what stands below them. It knows no registry and no transport.
"""
