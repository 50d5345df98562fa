// An add-on to node.hpp for programs that use nlohmann/json: commands with parsed arguments and
// answers. Costs that library's compile time, so that node.hpp need not.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "actors/json_answer.hpp"
#include "actors/node/node.hpp"

namespace gpunode {

// Carries out one command (Node::command); gives its answer, in which "ok" is true. Blocks until it
// is there. Fails with the error that the node answered.
inline Result<nlohmann::json> ask(Node& node, const std::string& command,
                                  const nlohmann::json& arguments) {
  return parsed_answer(node.command(command, arguments.dump()));
}

}  // namespace gpunode
