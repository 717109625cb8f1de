"""Runs of scripts given as text, as the tests of measurement have them."""

from tests.measurement.conftest import start

__all__ = ["start"]
