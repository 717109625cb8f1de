"""Random numbers of a run: held still, or drawn as another seed or worker would."""
