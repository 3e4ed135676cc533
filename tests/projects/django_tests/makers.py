MAKERS = {}
