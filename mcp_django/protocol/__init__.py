"""The wire: JSON-RPC framing, revisions, the method table and the shape of what leaves. No HTTP and no ORM in here."""
