"""Runs that are not timed: looked into, or held to what a setting promises."""
