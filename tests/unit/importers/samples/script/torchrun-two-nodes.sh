#!/usr/bin/env bash
# start on each node
set -euo pipefail
export OMP_NUM_THREADS=8
NNODES=2
torchrun \
    --nnodes=$NNODES \
    --nproc-per-node=8 \
    --max-restarts=3 \
    --rdzv-id=1234 \
    --rdzv-backend=c10d \
    --rdzv-endpoint=10.0.0.5:29400 \
    train.py --config conf/base.yaml --lr 3e-4   # the arguments of the script
