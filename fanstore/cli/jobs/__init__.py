"""Commands that run jobs and look at them."""
