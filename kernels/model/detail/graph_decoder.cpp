// A graph model's decoder. The tokens of all texts of a pass are rows of one tensor: everything but
// attention takes each row for itself, and attention finds a row's text in its pages. The graph for a
// number of rows and of predictions is made when it is first met, and the newest are kept.
#include <algorithm>
#include <utility>

#include "kernels/model/decoder.hpp"
#include "kernels/model/detail/graph_program.hpp"
#include "kernels/model/detail/input_range.hpp"
#include "kernels/model/detail/kept_graphs.hpp"

namespace gpunode::model {
namespace {

constexpr std::size_t kPage = 16;  // positions

std::size_t in_pages(std::size_t positions) {
  return (positions + kPage - 1) / kPage;
}

// Of a pass that reads some rows of texts.
struct DecodingShape {
  std::int64_t rows = 1;
  graph::Builder::Decoding decoding;
  bool independent_rows = true;
  ops::WeightFormat weights = ops::WeightFormat::fp32;
};

Result<SharedExecutable> compile_decoding(const GraphModel& model, const DecodingShape& shape) {
  graph::Builder builder(
      {.samples = 1, .positions = shape.rows, .decoding = shape.decoding, .training = false});
  model.forward(builder);
  auto forward = builder.finish();
  if (!forward) return forward.error();
  return graph::compile(std::move(*forward), graph::Purpose::forward,
                        {.precision = shape.independent_rows ? Precision::fp32 : model.precision(),
                         .independent_rows = shape.independent_rows,
                         .weights = shape.weights});
}

class GraphDecoder final : public Decoder {
 public:
  GraphDecoder(GraphProgram& program, const DecoderOptions& options,
               std::unique_ptr<tensor::Stream> stream)
      : program_(program), workspace_(program.pool()), stream_(std::move(stream)) {
    const bool is_the_hosts = program.backend().capabilities().host_accessible;
    independent_rows_ = is_the_hosts || options.independent_rows;
    texts_ = std::max<std::size_t>(options.texts, 1);
    rows_ = options.rows == 0 ? context() : std::max(options.rows, texts_);
    pages_ = options.positions == 0 ? texts_ * in_pages(context()) : in_pages(options.positions);
  }

  // As many pages as `bytes` hold; a full text's at least.
  Result<void> limit_cache(std::uint64_t bytes) {
    const std::size_t wanted = std::exchange(pages_, 1);
    const auto one = graph_for({1, 1});
    if (!one) return one.error();
    std::uint64_t page_bytes = 0;
    for (const graph::ValueId id : (*one)->graph().caches)
      page_bytes += (*one)->graph()[id].bytes();
    graphs_.clear();
    const std::size_t most = bytes / std::max<std::uint64_t>(page_bytes, 1);
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

  std::size_t context() const override {
    return static_cast<std::size_t>(program_.model().context());
  }
  std::size_t page() const override { return kPage; }
  std::size_t pages() const override { return pages_; }
  std::size_t most_texts() const override { return texts_; }
  std::size_t most_rows() const override { return rows_; }

  Result<void> read(std::span<const TextPart> parts, std::span<float> scores_out) override {
    if (auto ready = program_.require_loaded(); !ready) return ready;
    if (auto good = check_parts(*this, program_.model().vocabulary(), parts, scores_out.size());
        !good)
      return good;
    if (parts.empty()) return {};
    lay_out(parts);
    const auto graph = graph_for({tokens_.size(), std::max<std::size_t>(chosen_.size(), 1)});
    if (!graph) return graph.error();
    if (chosen_.empty()) chosen_.push_back(0);  // nobody looks at it
    return run(**graph, scores_out);
  }

 private:
  struct Extents {
    std::size_t rows = 0, chosen = 0;
    bool operator==(const Extents&) const = default;
  };
  Result<SharedExecutable> graph_for(const Extents& extents) {
    return graphs_.get(extents, [&] {
      return program_.with_constants(compile_decoding(
          program_.model(), {.rows = static_cast<std::int64_t>(extents.rows),
                             .decoding = {.context = program_.model().context(),
                                          .texts = static_cast<std::int64_t>(texts_),
                                          .page = kPage,
                                          .pages = static_cast<std::int64_t>(pages_),
                                          .chosen = static_cast<std::int64_t>(extents.chosen)},
                             .independent_rows = independent_rows_,
                             .weights = program_.format()}));
    });
  }

  // The parts as rows.
  void lay_out(std::span<const TextPart> parts) {
    const std::size_t most = in_pages(context());
    for (auto* list : {&tokens_, &positions_, &text_of_, &chosen_}) list->clear();
    page_table_.assign(texts_ * most, 0);
    for (std::size_t text = 0; text < parts.size(); ++text) {
      const TextPart& part = parts[text];
      tokens_.insert(tokens_.end(), part.tokens.begin(), part.tokens.end());
      for (std::size_t at = 0; at < part.tokens.size(); ++at)
        positions_.push_back(static_cast<std::int32_t>(part.position + at));
      text_of_.resize(tokens_.size(), static_cast<std::int32_t>(text));
      if (part.wants_scores) chosen_.push_back(static_cast<std::int32_t>(tokens_.size() - 1));
      std::copy_n(part.pages.begin(), std::min(part.pages.size(), most),
                  page_table_.begin() + static_cast<std::ptrdiff_t>(text * most));
    }
  }

  Result<void> run(const graph::Executable& executable, std::span<float> scores_out) {
    const graph::Graph& graph = executable.graph();
    const graph::DecodingInputs& inputs = graph.decoding;
    const graph::ValueId tokens = graph.inputs[kDecodingInputs];
    const WholeRange range = range_of(graph, tokens);
    for (const Token token : tokens_)
      if (!range.contains(token))
        return {ErrorCode::invalid_argument, program_.model().name() + " takes tokens from " +
                                                 range.text() + ", not " + std::to_string(token)};
    ops::Backend& backend = program_.backend();
    const graph::Places places{.slice = slice_.as<std::byte>(),
                               .scratch = scratch_.as<std::byte>(),
                               .parameters = program_.weights(),
                               .constants = program_.constants(),
                               .caches = caches_};
    for (const auto& [id, numbers] :
         {std::pair(tokens, &tokens_), std::pair(inputs.positions, &positions_),
          std::pair(inputs.texts, &text_of_), std::pair(inputs.pages, &page_table_),
          std::pair(inputs.chosen, &chosen_)})
      if (auto done = backend.upload(*stream_, bytes_of(std::span<const std::int32_t>(*numbers)),
                                     executable.place_of(id, places));
          !done)
        return done;
    for (std::size_t stage = 0; stage < executable.stages(); ++stage)
      if (auto done = executable.run(stage, backend, *stream_, workspace_, places); !done)
        return done;
    if (!scores_out.empty())
      if (auto done = backend.download(*stream_, executable.place_of(graph.logits, places),
                                       std::as_writable_bytes(scores_out));
          !done)
        return done;
    return stream_->synchronise();
  }

  static constexpr std::size_t kDecodingInputs = 4;  // come before the model's own

  GraphProgram& program_;
  tensor::Workspace workspace_;
  tensor::Buffer slice_, scratch_, cache_;
  std::size_t texts_ = 0, rows_ = 0, pages_ = 0;
  bool independent_rows_ = true;
  KeptGraphs<Extents> graphs_;
  std::vector<float*> caches_;
  std::vector<std::int32_t> tokens_, positions_, text_of_, page_table_, chosen_;  // of a pass
  std::unique_ptr<tensor::Stream> stream_;  // goes first, and waits for what uses the memory
};

}  // namespace

Result<std::unique_ptr<Decoder>> GraphProgram::decoder(const DecoderOptions& options) {
  if (!model_.generates())
    return {ErrorCode::unsupported, model_.name() + " does not continue texts"};
  auto stream = backend_.open_stream();
  if (!stream) return stream.error();
  auto decoder = std::make_unique<GraphDecoder>(*this, options, std::move(*stream));
  if (options.cache_bytes > 0)
    if (auto done = decoder->limit_cache(options.cache_bytes); !done) return done.error();
  if (auto done = decoder->allocate(); !done) return done.error();
  return std::unique_ptr<Decoder>(std::move(decoder));
}

Result<std::unique_ptr<Session>> GraphProgram::session() {
  auto one = decoder({});
  if (!one) return one.error();
  return session_of(std::move(*one));
}

}  // namespace gpunode::model
