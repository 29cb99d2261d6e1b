"""The flight records of all ranks, merged: which collective a run waits in, and which ranks are not in it."""
