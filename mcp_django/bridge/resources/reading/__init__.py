"""Reads rows: filters, orders, pages and cursors, and the values of rows as JSON."""
