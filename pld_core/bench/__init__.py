"""Benchmarks that anybody can run: engines beside each other on prompts, lookups on texts."""
