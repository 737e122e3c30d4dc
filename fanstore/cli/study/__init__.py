"""Commands that simulate, plan, measure and explain jobs."""
