// The functions behind the table of commands, one file each; each returns the exit code.
#pragma once

#include "tools/gpunode/command.hpp"

namespace gpunode::cli {

int run_up(const Invocation& invocation);  // also `join`
int run_leave(const Invocation& invocation);
int run_job_follow(const Invocation& invocation);
int run_job_wait(const Invocation& invocation);
int run_logs(const Invocation& invocation);
int run_config(const Invocation& invocation);
int run_status(const Invocation& invocation);
int run_nodes(const Invocation& invocation);
int run_devices(const Invocation& invocation);
int run_device_order(const Invocation& invocation);
int run_token_create(const Invocation& invocation);
int run_token_ls(const Invocation& invocation);
int run_token_revoke(const Invocation& invocation);
int run_http_key_create(const Invocation& invocation);
int run_http_key_ls(const Invocation& invocation);
int run_http_key_revoke(const Invocation& invocation);
int run_node_revoke(const Invocation& invocation);
int run_keys_rotate(const Invocation& invocation);
int run_cluster_refound(const Invocation& invocation);
int run_audit_show(const Invocation& invocation);
int run_audit_verify(const Invocation& invocation);
int run_train(const Invocation& invocation);
int run_jobs(const Invocation& invocation);
int run_job_show(const Invocation& invocation);
int run_job_trace(const Invocation& invocation);
int run_job_log(const Invocation& invocation);
int run_job_stop(const Invocation& invocation);  // also `job resume`, `job recover`
int run_job_rm(const Invocation& invocation);
int run_serve(const Invocation& invocation);
int run_metrics(const Invocation& invocation);
int run_unserve(const Invocation& invocation);
int run_models(const Invocation& invocation);
int run_generate(const Invocation& invocation);
int run_checkpoint_ls(const Invocation& invocation);
int run_checkpoint_verify(const Invocation& invocation);
int run_checkpoint_export(const Invocation& invocation);
int run_checkpoint_rm(const Invocation& invocation);
int run_model_import(const Invocation& invocation);
int run_model_export(const Invocation& invocation);
int run_quantize(const Invocation& invocation);
int run_doctor(const Invocation& invocation);
int run_bench_compute(const Invocation& invocation);
int run_bench_infer(const Invocation& invocation);
int run_version(const Invocation& invocation);
int run_help(const Invocation& invocation);
int run_completion(const Invocation& invocation);

}  // namespace gpunode::cli
