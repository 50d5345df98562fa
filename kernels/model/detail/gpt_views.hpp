// Named views into GPT's flat parameter vector, of weights (const) and of gradients alike.
#pragma once

#include <vector>

#include "kernels/model/gpt.hpp"
#include "kernels/tensor/tensor.hpp"

namespace gpunode::model {

template <class T>
struct GptBlockViews {
  tensor::View<T> norm1_weight, norm1_bias;            // (C)
  tensor::View<T> attention_weight, attention_bias;    // (3*C, C), (3*C)
  tensor::View<T> projection_weight, projection_bias;  // (C, C), (C)
  tensor::View<T> norm2_weight, norm2_bias;            // (C)
  tensor::View<T> expand_weight, expand_bias;          // (F, C), (F)
  tensor::View<T> reduce_weight, reduce_bias;          // (C, F), (C)
};

template <class T>
struct GptViews {
  tensor::View<T> token_table, position_table;  // (V, C), (T, C)
  std::vector<GptBlockViews<T>> blocks;
  tensor::View<T> norm_weight, norm_bias;  // (C)
};

template <class T>
GptViews<T> views_of(const Gpt& model, T* flat) {
  const std::int64_t C = model.shape().channels, F = model.shape().expansion * C;
  const GptOffsets& at = model.offsets();
  GptViews<T> views;
  views.token_table = {flat + at.token_table, {model.shape().vocabulary, C}};
  views.position_table = {flat + at.position_table, {model.shape().context, C}};
  for (const GptBlockOffsets& block : at.blocks) {
    views.blocks.push_back({{flat + block.norm1_weight, {C}},
                            {flat + block.norm1_bias, {C}},
                            {flat + block.attention_weight, {3 * C, C}},
                            {flat + block.attention_bias, {3 * C}},
                            {flat + block.projection_weight, {C, C}},
                            {flat + block.projection_bias, {C}},
                            {flat + block.norm2_weight, {C}},
                            {flat + block.norm2_bias, {C}},
                            {flat + block.expand_weight, {F, C}},
                            {flat + block.expand_bias, {F}},
                            {flat + block.reduce_weight, {C, F}},
                            {flat + block.reduce_bias, {C}}});
  }
  views.norm_weight = {flat + at.norm_weight, {C}};
  views.norm_bias = {flat + at.norm_bias, {C}};
  return views;
}

}  // namespace gpunode::model
