#include "tests/parity/hostile/hostile_operations.hpp"

namespace gpunode::hostile {
namespace {

// All that is left of a workspace: whatever runs on the device may use it until it has run.
MutableByteView rest_of(tensor::Workspace& workspace) {
  tensor::Workspace::Scope scope(workspace);
  const std::size_t bytes = workspace.free_bytes();
  return {static_cast<std::byte*>(workspace.take_bytes(bytes)), bytes};
}

// One call, with addresses that only the device knows.
template <class Args>
struct LateCall {
  HostileDevice* device;
  ops::Operation<Args>* arithmetic;
  Args args;
  MutableByteView scratch;
  const char* operation;

  Result<void> run(const Args& arguments, MutableByteView workspace_bytes) const {
    auto stream = device->cpu().open_stream();
    tensor::Workspace workspace(workspace_bytes);
    return arithmetic(**stream, workspace, arguments);
  }
  Result<void> run_guarded(const std::string& name) const {
    GuardedCopies copies(ops::accesses_of(args), scratch.size(), device->options().guard);
    Args moved = args;
    ops::visit(moved,
               [&]<class T>(std::string_view, T*& data, std::initializer_list<ops::Part> parts) {
                 for (const ops::Part& part : parts) {
                   if (part.bytes == 0) continue;
                   auto* begin = reinterpret_cast<const std::byte*>(data);
                   data = reinterpret_cast<T*>(copies.copy_of(begin + part.first) - part.first);
                   return;
                 }
               });
    FaultTrap::Scope scope(operation, copies.all().data(), copies.all().size());
    auto done = run(moved, copies.scratch());
    if (auto reason = copies.finish(scope.fault())) return device->fault(name + " " + *reason);
    return done;
  }
  void operator()(const std::string& name) const {
    // What comes behind an error may be given anything, as a token that no vocabulary has.
    if (!device->state()) return;
    FaultTrap::Scope scope(operation, nullptr, 0);
    auto done = device->options().guard == Guard::none ? run(args, scratch) : run_guarded(name);
    if (!done) device->fault(name + ": " + done.error().message(), done.error().code);
  }
};

template <class Args>
Result<void> enqueue(ops::Operation<Args>* arithmetic, const char* operation,
                     tensor::Stream& any_stream, tensor::Workspace& workspace, Args args) {
  HostileStream* stream = own(any_stream);
  if (!stream)
    return {ErrorCode::internal, std::string(operation) + ": the stream is another device's"};
  HostileDevice& device = stream->device();
  std::vector<ops::Access> accesses = ops::accesses_of(args);
  MutableByteView scratch;
  if constexpr (ops::kTakesWorkspace<Args>) scratch = rest_of(workspace);
  if (!scratch.empty())
    accesses.push_back({"workspace", scratch.data(), scratch.size(), ops::Use::write});
  ops::visit(args, [&](std::string_view, auto*& data, std::initializer_list<ops::Part>) {
    if (device.window().contains(data)) data = device.window().behind(data);
  });
  if (!scratch.empty()) scratch = {device.window().behind(scratch.data()), scratch.size()};
  return stream->make({operation, std::move(accesses),
                       LateCall<Args>{&device, arithmetic, args, scratch, operation},
                       &Report::operations});
}

template <auto kEntry, class Args>
struct Entry {
  static inline const char* name = nullptr;
  static Result<void> run(tensor::Stream& stream, tensor::Workspace& workspace, const Args& args) {
    HostileStream* mine = own(stream);
    const ops::Operations* table = mine ? &mine->device().arithmetic() : nullptr;
    return enqueue<Args>(table ? table->*kEntry : nullptr, name, stream, workspace, args);
  }
};

struct Enter {
  const ops::Operations& arithmetic;
  ops::Operations& late;
  template <auto kEntry>
  void operator()(std::string_view name) const {
    if (arithmetic.*kEntry) late.*kEntry = entry_for<kEntry>(name, arithmetic.*kEntry);
  }
  template <auto kEntry, class Args>
  static ops::Operation<Args>* entry_for(std::string_view name, ops::Operation<Args>*) {
    Entry<kEntry, Args>::name = name.data();
    return Entry<kEntry, Args>::run;
  }
};

}  // namespace

ops::Operations late_operations(const ops::Operations& arithmetic) {
  ops::Operations late;
  ops::for_each_operation(Enter{arithmetic, late});
  return late;
}

}  // namespace gpunode::hostile
