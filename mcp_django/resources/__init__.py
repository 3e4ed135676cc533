"""Models as resources: which fields and rows a principal may read, how they are asked for, and how they are written."""
