#include "kernels/ops/backend.hpp"

namespace gpunode::ops {

std::vector<std::string_view> Operations::missing() const {
  std::vector<std::string_view> names;
  const auto note = [&](auto* operation, std::string_view name) {
    if (!operation) names.push_back(name);
  };
  note(matmul, "matmul");
  note(layernorm, "layernorm");
  note(layernorm_backward, "layernorm_backward");
  note(gelu, "gelu");
  note(gelu_backward, "gelu_backward");
  note(attention, "attention");
  note(attention_backward, "attention_backward");
  note(attention_cached, "attention_cached");
  note(embedding, "embedding");
  note(embedding_backward, "embedding_backward");
  note(cross_entropy, "cross_entropy");
  note(add, "add");
  note(column_sum, "column_sum");
  note(adamw, "adamw");
  note(square_sum, "square_sum");
  return names;
}

}  // namespace gpunode::ops
