"""Build a `LaunchPlan` from a profile and a job, preview it, and copy the code of a run."""
