"""The prompts that people pick from a menu: a project declares some, and administrators write others."""
