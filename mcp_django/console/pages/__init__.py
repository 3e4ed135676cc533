"""The page where each person sees the apps and tokens that act for them, ends them, and makes tokens of their own."""
