"""FanStore: a transient distributed file system for deep-learning I/O."""

__version__ = "0.1.0"
