"""The race measures the seconds per training step of all methods and peers on slow networks."""
