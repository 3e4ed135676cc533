"""Uploads: files that clients have sent over HTTP, for arguments of tools and fields of forms to name by a URI.

It is told who the caller is. The views that take the bytes stand above, in transports.
"""
