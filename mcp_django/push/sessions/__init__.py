"""What legacy clients leave in the database: sessions, stored streams, open questions, and a mailbox between processes.

It loads no site: it is handed one for its name.
"""
