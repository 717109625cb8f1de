"""What the user named: a script or a recipe, the text of its files, and how it is started."""
