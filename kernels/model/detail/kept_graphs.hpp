// Graphs by what they were made for; the newest are kept, so that odd sizes do not fill the memory.
#pragma once

#include <algorithm>
#include <functional>
#include <list>

#include "kernels/model/graph_model.hpp"

namespace gpunode::model {

template <class Key>
class KeptGraphs {
 public:
  using Gone = std::function<void(const graph::Executable&)>;
  // `gone` is told of one that is kept no more.
  explicit KeptGraphs(Gone gone = [](const graph::Executable&) {}) : gone_(std::move(gone)) {}

  // The one made for it, else what `make` gives. Fails with: what `make` fails with.
  template <class Make>
  Result<SharedExecutable> get(const Key& key, const Make& make) {
    const auto known = std::ranges::find(graphs_, key, &Kept::key);
    if (known != graphs_.end()) {
      graphs_.splice(graphs_.begin(), graphs_, known);
      return graphs_.front().executable;
    }
    Result<SharedExecutable> made = make();
    if (!made) return made;
    if (graphs_.size() == kMost) {
      gone_(*graphs_.back().executable);
      graphs_.pop_back();
    }
    graphs_.push_front({key, *made});
    return made;
  }
  void clear() {
    for (const Kept& kept : graphs_) gone_(*kept.executable);
    graphs_.clear();
  }

 private:
  static constexpr std::size_t kMost = 64;
  struct Kept {
    Key key;
    SharedExecutable executable;
  };
  const Gone gone_;
  std::list<Kept> graphs_;  // newest first
};

}  // namespace gpunode::model
