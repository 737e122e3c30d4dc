"""Commands that make datasets and look at them."""
