#!/bin/bash
deepspeed --hostfile=myhostfile --num_nodes 2 --num_gpus 8 --master_port 29501 \
  client.py --deepspeed --deepspeed_config ds_config.json
