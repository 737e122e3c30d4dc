"""`fanstore warmup`: fetches files of a running job to this node before programs read them."""
