"""Keys of other trainers and launchers, and what has the same meaning in a job: a hint where one is unknown here."""

from __future__ import annotations

_NAMES = {
    "nodes": "nnodes num_nodes n_nodes",
    "procs_per_node": "nproc_per_node gpus_per_node ntasks_per_node tasks_per_node num_processes",
    "nodes and procs_per_node": "world_size num_gpus n_gpus ngpus gpus devices",
    "restarts": "max_restarts",
    "time_limit": "walltime timeout",
    "trainer.steps": "max_steps num_steps train_steps total_steps max_iters iterations"
    " epochs num_epochs num_train_epochs max_epochs",
    "trainer.batch.sequences": "batch_size global_batch_size train_batch_size",
    "trainer.batch.micro_batch": "micro_batch_size local_batch_size per_device_batch_size per_device_train_batch_size",
    "trainer.batch, where sequences and micro_batch decide it": "gradient_accumulation gradient_accumulation_steps"
    " grad_accum accumulate_grad_batches",
    "trainer.optim.lr": "learning_rate max_lr",
    "trainer.optim.schedule": "lr_schedule lr_scheduler lr_scheduler_type scheduler",
    "trainer.optim.warmup_steps": "warmup warmup_ratio warmup_iters lr_warmup_steps num_warmup_steps",
    "trainer.optim.clip_norm": "max_grad_norm max_norm grad_clip clip_grad gradient_clip_val",
    "trainer.precision": "bf16 fp16 amp mixed_precision dtype torch_dtype param_dtype",
    "trainer.memory.recompute": "activation_checkpointing gradient_checkpointing fsdp_activation_checkpointing",
    "trainer.memory.cpu_offload": "offload offload_params fsdp_offload_params",
    "trainer.mesh.strategy": "sharding_strategy fsdp_sharding_strategy fsdp fsdp_config",
    "trainer.mesh.units": "wrap_policy auto_wrap_policy fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap",
    "trainer.mesh.prefetch": "forward_prefetch backward_prefetch fsdp_forward_prefetch fsdp_backward_prefetch",
    "trainer.mesh.replicate": "dp_replicate data_parallel_replicate_degree",
    "trainer.mesh.shard": "dp_shard data_parallel_shard_degree",
    "trainer.checkpoint.every_steps": "save_steps save_every save_interval checkpoint_every checkpoint_interval",
    "trainer.checkpoint.keep": "save_total_limit keep_last",
    "trainer.eval.every_steps": "eval_steps eval_every eval_interval",
    "trainer.log_every": "logging_steps log_steps log_interval",
    "trainer.data.source": "dataset dataset_name dataset_path data_path data_dir",
    "trainer.model.d_model": "hidden_size dim n_embd embed_dim",
    "trainer.model.layers": "num_hidden_layers num_layers n_layers n_layer",
    "trainer.model.heads": "num_attention_heads num_heads n_heads n_head",
    "trainer.model.kv_heads": "num_key_value_heads num_kv_heads n_kv_heads",
    "trainer.model.ffn": "intermediate_size ffn_dim",
    "trainer.model.seq_len": "max_position_embeddings max_seq_len sequence_length context_length block_size",
}

OTHER_NAMES = {name: here for here, names in _NAMES.items() for name in names.split()}
"""Another program's key -> what has its meaning here."""
