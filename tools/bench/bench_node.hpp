// Nodes of a benchmark's own, and what is done where one of them cannot go on.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "actors/node/node.hpp"

namespace gpunode::bench {

[[noreturn]] inline void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

inline std::unique_ptr<Node> start_node(NodeConfig config) {
  auto node = Node::start(std::move(config));
  if (!node) give_up(node.error().message());
  return std::move(*node);
}

// On loopback, with one thread on the CPU; its state in `folder`.
inline NodeConfig config_of(const std::string& folder, const std::string& name) {
  NodeConfig config;
  config.state_directory = folder + "/" + name;
  config.name = name;
  config.listen = "127.0.0.1:0";
  config.device = "cpu";
  config.threads = 1;
  return config;
}

inline nlohmann::json command(Node& node, const std::string& name,
                              const nlohmann::json& arguments) {
  nlohmann::json told = nlohmann::json::parse(node.command(name, arguments.dump()));
  if (!told.value("ok", false)) give_up(told.dump());
  return told;
}

}  // namespace gpunode::bench
