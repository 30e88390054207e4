"""Recipes: one runnable file a task, each read from top to bottom."""
