"""What agents can reach, for the people who answer for it: the inventory, the reasons, and the admin beside it."""
