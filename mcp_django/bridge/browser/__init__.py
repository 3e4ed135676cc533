"""A small browser for the pages that admin actions answer with: it reads their forms, and sends them as people do."""
