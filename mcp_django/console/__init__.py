"""What people see: the pages in the admin, the pages outside of it, and the lists that reviewers read.

It imports server and the packages below it.
"""
