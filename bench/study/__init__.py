"""Does it still learn? The claims of both papers, on real data, with `gradwire train`."""
