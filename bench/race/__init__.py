"""The race: seconds per training step of every method and its peers on emulated slow networks."""
