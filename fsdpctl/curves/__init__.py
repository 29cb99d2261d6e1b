"""The numbers of runs over their steps: read, thinned, and drawn in the terminal or as a picture."""
