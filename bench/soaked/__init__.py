"""What the clients of ``bench.soak`` call beside the demo's own tools."""
