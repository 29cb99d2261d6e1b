"""Memory, time and cost of a job before it runs. Values in, values out; no torch.

estimate(config, Cluster(nodes=4, procs_per_node=8), find_card("h100-80"))     an Estimate
Planner(config, cluster, card).smallest_change()                               a Choice that fits

sizes          parameters, FSDP units and FLOPs of a model
world          ranks, mesh and batch
activations    what the passes hold for each token
memory         one GPU, item by item, at the highest moment of a step
traffic        bytes over links and network
time           a step
result         all of these together
changes, choices, reason   other ways to train the same job, the best of them, and why
accumulation   why nothing fits, and the largest global batch without accumulation
simple         the textbook's view
hugging_face   sizes in a config.json
"""

from fsdpctl.estimate.choices import Choice, Planner
from fsdpctl.estimate.result import Cluster, Estimate, Fit, estimate

__all__ = ["Choice", "Cluster", "Estimate", "Fit", "Planner", "estimate"]
