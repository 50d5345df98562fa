// A table of operations that can be noted and done again: while this thread notes, a call is kept with
// its arguments and what is left of its workspace, and not done. One table of each kind at a time, as
// its entries are kept beside the functions.
#pragma once

#include <functional>
#include <vector>

#include "kernels/ops/operation_list.hpp"

namespace gpunode::parity {

struct NotedCalls final : ops::NotedWork {
  std::vector<std::function<Result<void>()>> calls;
};

inline thread_local NotedCalls* noting = nullptr;  // null: calls are done

// Does it, or keeps it where this thread notes.
inline Result<void> do_or_note(std::function<Result<void>()> call) {
  if (!noting) return call();
  noting->calls.push_back(std::move(call));
  return {};
}

template <auto kEntry, class Args>
struct NotedEntry {
  static inline ops::Operation<Args>* operation = nullptr;
  static Result<void> run(tensor::Stream& stream, tensor::Workspace& workspace, const Args& args) {
    if (!noting) return operation(stream, workspace, args);
    tensor::Workspace::Scope scope(workspace);
    const std::size_t bytes = workspace.free_bytes();
    const MutableByteView rest(static_cast<std::byte*>(workspace.take_bytes(bytes)), bytes);
    return do_or_note([&stream, rest, args] {
      tensor::Workspace own(rest);
      return operation(stream, own, args);
    });
  }
};

struct EnterNoted {
  ops::Operations& table;
  template <auto kEntry>
  void operator()(std::string_view) const {
    if (table.*kEntry) table.*kEntry = entry_for<kEntry>(table.*kEntry);
  }
  template <auto kEntry, class Args>
  static ops::Operation<Args>* entry_for(ops::Operation<Args>* operation) {
    NotedEntry<kEntry, Args>::operation = operation;
    return NotedEntry<kEntry, Args>::run;
  }
};

}  // namespace gpunode::parity
