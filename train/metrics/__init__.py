"""Metrics of each step: from the device to files.

`telemetry` owns the recorder and the metrics writers. A writer is one file here and one row in `table`:

    writer                                     what a metrics writer is, and the record of one step
    table                                      which writers there are, and on which ranks
    jsonl tensorboard progress_log             the writers
    telemetry recorder                         one step's numbers: from the device to the writers
    device_timestamp stragglers                times on the device, and the ranks that take too long
    run_header memory profiling                the log at the start, memory, traces
    compile_times                              when the compiler works
"""
