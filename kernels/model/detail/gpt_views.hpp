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

// `part` holds the elements of `range`; what lies outside it is null.
template <class T>
GptBlockViews<T> block_views_of(const Gpt& model, std::size_t layer, T* part, ElementRange range) {
  const std::int64_t C = model.shape().channels, F = model.shape().expansion * C;
  const GptBlockOffsets& at = model.offsets().blocks[layer];
  const auto place = [&](std::size_t offset) -> T* {
    const bool inside = offset >= range.first && offset - range.first < range.count;
    return inside ? part + (offset - range.first) : nullptr;
  };
  return {{place(at.norm1_weight), {C}},
          {place(at.norm1_bias), {C}},
          {place(at.attention_weight), {3 * C, C}},
          {place(at.attention_bias), {3 * C}},
          {place(at.projection_weight), {C, C}},
          {place(at.projection_bias), {C}},
          {place(at.norm2_weight), {C}},
          {place(at.norm2_bias), {C}},
          {place(at.expand_weight), {F, C}},
          {place(at.expand_bias), {F}},
          {place(at.reduce_weight), {C, F}},
          {place(at.reduce_bias), {C}}};
}

template <class T>
GptViews<T> views_of(const Gpt& model, T* flat) {
  const std::int64_t C = model.shape().channels;
  const GptOffsets& at = model.offsets();
  GptViews<T> views;
  views.token_table = {flat + at.token_table, {model.shape().vocabulary, C}};
  views.position_table = {flat + at.position_table, {model.shape().context, C}};
  for (std::size_t layer = 0; layer < at.blocks.size(); ++layer)
    views.blocks.push_back(block_views_of(model, layer, flat, {0, model.parameter_count()}));
  views.norm_weight = {flat + at.norm_weight, {C}};
  views.norm_bias = {flat + at.norm_bias, {C}};
  return views;
}

}  // namespace gpunode::model
