"""What legacy clients leave in the database: sessions, stored streams, open questions, and a mailbox between processes.

It may import tools, tasks, resources, access, models, exchange and everything below. It knows no site and no
transport.
"""
