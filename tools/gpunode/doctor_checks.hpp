// What `doctor` looks at, one function a subject. Each says ok, warn or fail, what it saw, and what
// to do about it. They read only; nothing is created, locked or changed.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace gpunode::cli {

struct Finding {
  enum class Grade { ok, warn, fail };
  std::string subject;
  Grade grade = Grade::ok;
  std::string text;
  std::string remedy;  // empty where all is well
};
std::string to_string(Finding::Grade grade);

Finding check_driver(bool built_with_cuda);
// The control port and the two after it, on `host`. `node_runs`: our own node may hold them.
Finding check_ports(const std::string& host, int port, bool node_runs);
Finding check_clock();
Finding check_disk(const std::string& state);
Finding check_open_files();
Finding check_locked_memory(bool has_gpu);
Finding check_proc();
Finding check_sandbox();
Finding check_state(const std::string& state, bool node_runs);
bool has_gpu();

}  // namespace gpunode::cli
