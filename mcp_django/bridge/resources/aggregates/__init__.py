"""Groups, measures and percentiles of the rows that a principal may read."""
