"""From a profile and a job to a `LaunchPlan`, its preview, and the code snapshot of a run."""
