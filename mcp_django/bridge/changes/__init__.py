"""Changes by agents, of whatever kind: previewed, agreed to by people, claimed, made once, and told afterwards."""
