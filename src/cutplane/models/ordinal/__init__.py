"""Grades in order."""
