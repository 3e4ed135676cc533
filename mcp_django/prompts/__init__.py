"""What a person picks from a menu: prompts that a project declares, and prompts that an administrator writes."""
