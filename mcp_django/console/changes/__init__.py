"""What people are shown of the changes that agents propose, and what they decide, in the admin and outside of it."""
