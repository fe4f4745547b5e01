"""The study tests whether models learn as well with every method, on real data."""
