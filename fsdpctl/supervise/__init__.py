"""The supervisor: run attempts one after the other, judge each end, and decide what follows."""
