// A graph model's encoder: one sample of as many positions as the text has tokens. The graph of a length is
// made when it is first met, and the newest are kept.
#include "kernels/model/detail/graph_program.hpp"
#include "kernels/model/detail/kept_graphs.hpp"
#include "kernels/model/encoder.hpp"

namespace gpunode::model {
namespace {

class GraphEncoder final : public Encoder {
 public:
  GraphEncoder(GraphProgram& program, std::unique_ptr<tensor::Stream> stream)
      : program_(program), workspace_(program.pool()), stream_(std::move(stream)) {}

  std::size_t context() const override {
    return static_cast<std::size_t>(program_.model().context());
  }

  Result<void> read(std::span<const Token> text, std::span<float> out) override {
    if (auto ready = program_.require_loaded(); !ready) return ready;
    if (auto good = check(text, out.size()); !good) return good;
    const auto executable = graph_for(text.size());
    if (!executable) return executable.error();
    const graph::MemoryPlan& plan = (*executable)->plan();
    for (const auto& [buffer, bytes] :
         {std::pair(&slice_, plan.slice_bytes), std::pair(&scratch_, plan.scratch_bytes)})
      if (auto grown = program_.pool().grow(*buffer, bytes); !grown)
        return grown.error().within("a text that is represented");
    if (auto done = workspace_.reserve(plan.workspace_bytes); !done) return done;
    return run(**executable, text, out);
  }

 private:
  Result<void> check(std::span<const Token> text, std::size_t room) const {
    const auto refused = [](std::string what) {
      return Error{ErrorCode::invalid_argument, std::move(what)};
    };
    const std::size_t vocabulary = program_.model().vocabulary();
    if (text.empty() || text.size() > context())
      return refused("a text of " + std::to_string(text.size()) + " tokens; " +
                     program_.model().name() + " reads 1 to " + std::to_string(context()));
    for (const Token token : text)
      if (token < 0 || static_cast<std::size_t>(token) >= vocabulary)
        return refused("token " + std::to_string(token) + " is outside the vocabulary of " +
                       std::to_string(vocabulary));
    const std::size_t wanted = text.size() * program_.model().representation();
    if (room == wanted) return {};
    return refused("room for " + std::to_string(room) + " numbers, of " + std::to_string(wanted));
  }

  Result<SharedExecutable> compiled(std::size_t tokens) const {
    const GraphModel& model = program_.model();
    graph::Builder builder(
        {.samples = 1, .positions = static_cast<std::int64_t>(tokens), .training = false});
    model.forward(builder);
    auto forward = builder.finish();
    if (!forward) return forward.error();
    // On the CPU's all cores.
    const bool on_host = program_.backend().capabilities().host_accessible;
    return graph::compile(std::move(*forward), graph::Purpose::represent,
                          {.precision = on_host ? Precision::fp32 : model.precision(),
                           .independent_rows = on_host,
                           .weights = program_.format()});
  }

  Result<SharedExecutable> graph_for(std::size_t tokens) {
    return graphs_.get(tokens, [&] { return program_.with_constants(compiled(tokens)); });
  }

  Result<void> run(const graph::Executable& executable, std::span<const Token> text,
                   std::span<float> out) {
    const graph::Graph& graph = executable.graph();
    ops::Backend& backend = program_.backend();
    const graph::Places places{.slice = slice_.as<std::byte>(),
                               .scratch = scratch_.as<std::byte>(),
                               .parameters = program_.weights(),
                               .constants = program_.constants()};
    std::vector<std::vector<std::int32_t>> numbers;
    std::vector<InputPart> inputs;
    for (const graph::ValueId id : graph.inputs) {
      numbers.emplace_back(graph[id].element_count());
      inputs.push_back(
          {graph[id].name, graph[id].dtype, numbers.back().data(), numbers.back().size()});
    }
    if (auto done = program_.model().read_text(text, inputs); !done) return done;
    for (std::size_t at = 0; at < numbers.size(); ++at)
      if (auto done = backend.upload(*stream_, bytes_of(std::span<const std::int32_t>(numbers[at])),
                                     executable.place_of(graph.inputs[at], places));
          !done)
        return done;
    for (std::size_t stage = 0; stage < executable.stages(); ++stage)
      if (auto done = executable.run(stage, backend, *stream_, workspace_, places); !done)
        return done;
    if (auto done = backend.download(*stream_, executable.place_of(graph.logits, places),
                                     std::as_writable_bytes(out));
        !done)
      return done;
    return stream_->synchronise();
  }

  GraphProgram& program_;
  tensor::Workspace workspace_;
  tensor::Buffer slice_, scratch_;
  KeptGraphs<std::size_t> graphs_;
  std::unique_ptr<tensor::Stream> stream_;  // goes first, and waits for what uses the memory
};

}  // namespace

Result<std::unique_ptr<Encoder>> GraphProgram::encoder() {
  if (model_.representation() == 0)
    return {ErrorCode::unsupported, model_.name() + " does not represent texts"};
  auto stream = backend_.open_stream();
  if (!stream) return stream.error();
  return std::unique_ptr<Encoder>(std::make_unique<GraphEncoder>(*this, std::move(*stream)));
}

}  // namespace gpunode::model
