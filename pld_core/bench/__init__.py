"""Benchmarks that anybody can run: engines side by side on prompts, lookups side by side on texts."""
