// A text being continued by a graph model: keys and values of all positions so far stay in a cache,
// so each new token costs one pass over the weights. The graph for the number of tokens that is read
// at once is kept until another number comes; the one for a single token always.
#include <algorithm>

#include "kernels/model/detail/graph_program.hpp"
#include "kernels/model/detail/input_range.hpp"

namespace gpunode::model {
namespace {

class GraphSession final : public Session {
 public:
  GraphSession(GraphProgram& program, std::unique_ptr<tensor::Stream> stream)
      : program_(program), workspace_(program.pool()), stream_(std::move(stream)) {}

  Result<void> allocate() {
    const std::size_t context = capacity();
    for (const std::size_t tokens : {context, std::size_t{1}}) {
      auto made = program_.with_constants(compile_session(program_.model(), tokens));
      if (!made) return made.error();
      const graph::MemoryPlan& plan = (*made)->plan();
      if (auto grown = program_.pool().grow(slice_, plan.slice_bytes); !grown)
        return grown.error().within("a generating session");
      if (auto grown = program_.pool().grow(scratch_, plan.scratch_bytes); !grown)
        return grown.error().within("a generating session");
      workspace_bytes_ = std::max(workspace_bytes_, plan.workspace_bytes);
      single_ = *made;
    }
    std::size_t bytes = 0;
    const graph::Graph& graph = single_->graph();
    for (const graph::ValueId id : graph.caches) bytes += (graph[id].bytes() + 63) / 64 * 64;
    if (auto grown = program_.pool().grow(cache_, bytes); !grown)
      return grown.error().within("a generating session");
    auto* at = cache_.as<std::byte>();
    for (const graph::ValueId id : graph.caches) {
      caches_.push_back(reinterpret_cast<float*>(at));
      at += (graph[id].bytes() + 63) / 64 * 64;
    }
    return workspace_.reserve(workspace_bytes_);
  }

  std::size_t position() const override { return position_; }
  std::size_t capacity() const override {
    return static_cast<std::size_t>(program_.model().context());
  }
  void reset() override { position_ = 0; }

  Result<void> append(std::span<const Token> tokens, std::span<float> logits_out) override {
    const std::size_t vocabulary = program_.model().vocabulary();
    if (auto ready = program_.require_loaded(); !ready) return ready;
    if (tokens.empty() || logits_out.size() != vocabulary)
      return {ErrorCode::invalid_argument, "no tokens, or room for the wrong number of scores"};
    for (const Token token : tokens)
      if (token < 0 || static_cast<std::size_t>(token) >= vocabulary)
        return {ErrorCode::invalid_argument, "token " + std::to_string(token) +
                                                 " is outside the vocabulary of " +
                                                 std::to_string(vocabulary)};
    if (tokens.size() > capacity() - position_)
      return {ErrorCode::resource_exhausted,
              std::to_string(position_) + " of " + std::to_string(capacity()) +
                  " positions are taken: reset and read the newer part again"};
    if (auto done = read(tokens, logits_out); !done) return done;
    position_ += tokens.size();
    return {};
  }

 private:
  Result<SharedExecutable> executable_for(std::size_t tokens) {
    if (tokens == 1) return single_;
    if (!several_ || several_tokens_ != tokens) {
      auto made = program_.with_constants(compile_session(program_.model(), tokens));
      if (!made) return made;
      several_ = *made;
      several_tokens_ = tokens;
    }
    return several_;
  }

  Result<void> read(std::span<const Token> tokens, std::span<float> logits_out) {
    auto executable = executable_for(tokens.size());
    if (!executable) return executable.error();
    const graph::Graph& graph = (*executable)->graph();
    const WholeRange range = range_of(graph, graph.inputs.front());
    for (const Token token : tokens)
      if (!range.contains(token))
        return {ErrorCode::invalid_argument, program_.model().name() + " takes tokens from " +
                                                 range.text() + ", not " + std::to_string(token)};
    ops::Backend& backend = program_.backend();
    const graph::Places places{.slice = slice_.as<std::byte>(),
                               .scratch = scratch_.as<std::byte>(),
                               .parameters = program_.weights(),
                               .constants = program_.constants(),
                               .caches = caches_,
                               .position = static_cast<std::int64_t>(position_)};
    void* input = (*executable)->place_of(graph.inputs.front(), places);
    if (auto done = backend.upload(*stream_, bytes_of(tokens), input); !done) return done;
    if (auto done = (*executable)->run(0, backend, *stream_, workspace_, places); !done)
      return done;
    const void* logits = (*executable)->place_of(graph.logits, places);
    if (auto done = backend.download(*stream_, logits, std::as_writable_bytes(logits_out)); !done)
      return done;
    return stream_->synchronise();
  }

  GraphProgram& program_;
  tensor::Workspace workspace_;
  tensor::Buffer slice_, scratch_, cache_;
  SharedExecutable single_, several_;
  std::size_t several_tokens_ = 0, workspace_bytes_ = 0, position_ = 0;
  std::vector<float*> caches_;
  std::unique_ptr<tensor::Stream> stream_;  // goes first, and waits for what uses the memory
};

}  // namespace

Result<std::unique_ptr<Session>> GraphProgram::session() {
  if (!model_.generates())
    return {ErrorCode::unsupported, model_.name() + " does not continue texts"};
  auto stream = backend_.open_stream();
  if (!stream) return stream.error();
  auto session = std::make_unique<GraphSession>(*this, std::move(*stream));
  if (auto done = session->allocate(); !done) return done.error();
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace gpunode::model
