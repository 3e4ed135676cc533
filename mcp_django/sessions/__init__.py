"""What legacy clients leave in the database: sessions, stored streams, open questions, and a mailbox between processes.

It imports models, exchange, db, protocol, events, compat, memory, conf and types. It loads no site: it is handed one
for its name.
"""
