// A graph model's decoder, or one part of it. The tokens of all texts of a pass are rows of one tensor:
// everything but attention takes each row for itself, and attention finds a row's text in its pages. The
// graph for a number of rows and of predictions is made when it is first met, and the newest are kept.
#include <algorithm>
#include <utility>

#include "kernels/model/detail/decoding_graph.hpp"
#include "kernels/model/detail/graph_program.hpp"
#include "kernels/model/detail/input_range.hpp"
#include "kernels/model/detail/kept_graphs.hpp"
#include "kernels/model/detail/stage_replays.hpp"

namespace gpunode::model {
namespace {

constexpr std::size_t kPage = 16;  // positions

std::size_t in_pages(std::size_t positions) {
  return (positions + kPage - 1) / kPage;
}

class GraphPart final : public DecoderPart {
 public:
  GraphPart(GraphProgram& program, const DecoderOptions& options,
            std::unique_ptr<tensor::Stream> stream)
      : program_(program), workspace_(program.pool()), stream_(std::move(stream)) {
    const bool is_the_hosts = program.backend().capabilities().host_accessible;
    independent_rows_ = is_the_hosts || options.independent_rows;
    texts_ = std::max<std::size_t>(options.texts, 1);
    rows_ = options.rows == 0 ? context() : std::max(options.rows, texts_);
    pages_ = options.positions == 0 ? texts_ * in_pages(context()) : in_pages(options.positions);
    if (options.pages > 0) pages_ = options.pages;
  }

  // Before any memory is taken.
  void take_part(const ModelPart& part, const float* weights) {
    is_ = part;
    weights_ = weights;
  }

  // As many pages as `bytes` hold where each takes `page_bytes` or more; a full text's at least.
  Result<void> limit_cache(std::uint64_t bytes, std::uint64_t page_bytes) {
    const std::size_t wanted = std::exchange(pages_, 1);
    const auto one = graph_for({1, 1});
    if (!one) return one.error();
    const std::uint64_t own = cache_bytes((*one)->graph());
    graphs_.clear();
    const std::size_t most = bytes / std::max<std::uint64_t>({page_bytes, own, 1});
    pages_ = std::max(std::min(wanted, most), in_pages(context()));
    return {};
  }

  // All that the largest pass takes.
  Result<void> allocate() {
    const auto largest = graph_for({rows_, std::min(texts_, rows_)});
    if (!largest) return largest.error();
    const graph::MemoryPlan& plan = (*largest)->plan();
    std::size_t bytes = 0;
    const graph::Graph& graph = (*largest)->graph();
    for (const graph::ValueId id : graph.caches) bytes += (graph[id].bytes() + 63) / 64 * 64;
    for (const auto& [buffer, size] :
         {std::pair(&slice_, plan.slice_bytes), std::pair(&scratch_, plan.scratch_bytes),
          std::pair(&cache_, bytes)})
      if (auto grown = program_.pool().grow(*buffer, size); !grown)
        return grown.error().within("texts that are continued");
    auto* at = cache_.as<std::byte>();
    for (const graph::ValueId id : graph.caches) {
      caches_.push_back(reinterpret_cast<float*>(at));
      at += (graph[id].bytes() + 63) / 64 * 64;
    }
    return workspace_.reserve(plan.workspace_bytes);
  }

  const ModelPart& is() const override { return is_; }
  std::size_t context() const override {
    return static_cast<std::size_t>(program_.model().context());
  }
  std::size_t page() const override { return kPage; }
  DecoderExtents extents() const override { return {texts_, rows_, pages_}; }
  std::size_t vocabulary() const override { return program_.model().vocabulary(); }

  Result<void> run(const PassRows& rows, std::span<const float> in, std::span<float> out) override {
    if (!weights_)
      if (auto ready = program_.require_loaded(); !ready) return ready;
    if (auto good = check_rows(*this, rows, in, out.size()); !good) return good;
    const auto graph =
        graph_for({rows.positions.size(), std::max<std::size_t>(rows.chosen.size(), 1)});
    if (!graph) return graph.error();
    return run(**graph, rows, in, out);
  }

 private:
  struct Extents {
    std::size_t rows = 0, chosen = 0;
    bool operator==(const Extents&) const = default;
  };
  bool is_whole() const { return weights_ == nullptr; }
  Result<SharedExecutable> graph_for(const Extents& extents) {
    return graphs_.get(extents, [&] {
      DecodingShape shape{.rows = static_cast<std::int64_t>(extents.rows),
                          .decoding = {.context = program_.model().context(),
                                       .texts = static_cast<std::int64_t>(texts_),
                                       .page = kPage,
                                       .pages = static_cast<std::int64_t>(pages_),
                                       .chosen = static_cast<std::int64_t>(extents.chosen)},
                          .independent_rows = independent_rows_,
                          .weights = is_whole() ? program_.format() : is_.layout.format};
      if (!is_whole()) shape.part = graph::StageSpan{is_.first_stage, is_.end_stage};
      return program_.with_constants(compile_decoding(program_.model(), shape));
    });
  }

  Result<void> check_tokens(const graph::Graph& graph, std::span<const Token> tokens) const {
    const WholeRange range = range_of(graph, graph.inputs[kDecodingInputs]);
    for (const Token token : tokens)
      if (!range.contains(token))
        return {ErrorCode::invalid_argument, program_.model().name() + " takes tokens from " +
                                                 range.text() + ", not " + std::to_string(token)};
    return {};
  }

  Result<void> run(const graph::Executable& executable, const PassRows& rows,
                   std::span<const float> in, std::span<float> out) {
    const graph::Graph& graph = executable.graph();
    // A plan looks for gaps for what it places, so that fewer rows need not take less.
    if (executable.plan().slice_bytes > slice_.size() ||
        executable.plan().scratch_bytes > scratch_.size())
      return {ErrorCode::internal, "a pass of " + std::to_string(rows.positions.size()) +
                                       " rows takes more memory than one of " +
                                       std::to_string(rows_) + ", for which there is room"};
    const graph::DecodingInputs& inputs = graph.decoding;
    if (auto good = check_tokens(graph, rows.tokens); !good) return good;
    ops::Backend& backend = program_.backend();
    const graph::Places places{.slice = slice_.as<std::byte>(),
                               .scratch = scratch_.as<std::byte>(),
                               .parameters = is_whole() ? program_.weights() : weights_,
                               .constants = program_.constants(),
                               .caches = caches_};
    static const std::vector<std::int32_t> nobody_looks_at{0};
    const auto& chosen = rows.chosen.empty() ? nobody_looks_at : rows.chosen;
    std::vector<std::pair<graph::ValueId, ByteView>> given;
    for (const auto& [id, numbers] :
         {std::pair(inputs.positions, &rows.positions), std::pair(inputs.texts, &rows.texts),
          std::pair(inputs.pages, &rows.pages), std::pair(inputs.chosen, &chosen)})
      given.emplace_back(id, bytes_of(std::span<const std::int32_t>(*numbers)));
    if (is_.is_first())
      given.emplace_back(graph.inputs[kDecodingInputs],
                         bytes_of(std::span<const std::int32_t>(rows.tokens)));
    else
      given.emplace_back(graph.carried, std::as_bytes(in));
    for (const auto& [id, bytes] : given)
      if (auto done = backend.upload(*stream_, bytes, executable.place_of(id, places)); !done)
        return done;
    for (std::size_t stage = 0; stage < executable.stages(); ++stage)
      if (auto done = replays_.run({&executable, stage}, backend, *stream_, workspace_, places);
          !done)
        return done;
    if (!out.empty())
      if (auto done = backend.download(*stream_, executable.place_of(graph.logits, places),
                                       std::as_writable_bytes(out));
          !done)
        return done;
    if (auto done = stream_->synchronise(); !done) return done;
    replays_.settle();
    return {};
  }

  GraphProgram& program_;
  ModelPart is_;
  const float* weights_ =
      nullptr;  // of a part; null: the program's, as they are when a pass is made
  tensor::Workspace workspace_;
  tensor::Buffer slice_, scratch_, cache_;
  std::size_t texts_ = 0, rows_ = 0, pages_ = 0;
  bool independent_rows_ = true;
  StageReplays replays_;  // all lies where it did in the last pass
  KeptGraphs<Extents> graphs_{
      [this](const graph::Executable& executable) { replays_.forget(executable); }};
  std::vector<float*> caches_;
  std::unique_ptr<tensor::Stream> stream_;  // goes first, and waits for what uses the memory
};

}  // namespace

Result<graph::Graph> decoding_graph(const GraphModel& model, const DecodingShape& shape) {
  graph::Builder builder(
      {.samples = 1, .positions = shape.rows, .decoding = shape.decoding, .training = false});
  model.forward(builder);
  return builder.finish();
}

Result<SharedExecutable> compile_decoding(const GraphModel& model, const DecodingShape& shape) {
  auto forward = decoding_graph(model, shape);
  if (!forward) return forward.error();
  return graph::compile(std::move(*forward), graph::Purpose::forward,
                        {.precision = shape.independent_rows ? Precision::fp32 : model.precision(),
                         .independent_rows = shape.independent_rows,
                         .weights = shape.weights,
                         .part = shape.part});
}

std::uint64_t cache_bytes(const graph::Graph& graph) {
  std::uint64_t bytes = 0;
  for (const graph::ValueId id : graph.caches) bytes += graph[id].bytes();
  return bytes;
}

Result<std::unique_ptr<DecoderPart>> GraphProgram::open_part(const ModelPart* part, ByteView image,
                                                             const DecoderOptions& options) {
  if (!model_.generates())
    return {ErrorCode::unsupported, model_.name() + " does not continue texts"};
  auto stream = backend_.open_stream();
  if (!stream) return stream.error();
  auto opened = std::make_unique<GraphPart>(*this, options, std::move(*stream));
  if (part) opened->take_part(*part, reinterpret_cast<const float*>(image.data()));
  if (options.cache_bytes > 0)
    if (auto done = opened->limit_cache(options.cache_bytes, options.page_bytes); !done)
      return done.error();
  if (auto done = opened->allocate(); !done) return done.error();
  return std::unique_ptr<DecoderPart>(std::move(opened));
}

Result<std::unique_ptr<DecoderPart>> GraphProgram::part(const ModelPart& part, ByteView image,
                                                        const DecoderOptions& options) {
  if (image.size() != part.layout.bytes || image.empty())
    return {ErrorCode::invalid_argument, "an image of " + std::to_string(image.size()) +
                                             " bytes, and the part has " +
                                             std::to_string(part.layout.bytes)};
  return open_part(&part, image, options);
}

Result<std::unique_ptr<Decoder>> GraphProgram::decoder(const DecoderOptions& options) {
  auto whole = open_part(nullptr, {}, options);
  if (!whole) return whole.error();
  return decoder_of(*std::move(whole), nullptr);
}

Result<std::unique_ptr<Session>> GraphProgram::session() {
  auto one = decoder({});
  if (!one) return one.error();
  return session_of(std::move(*one));
}

}  // namespace gpunode::model
