#include "actors/inference/row_desk.hpp"

#include "actors/inference/row_answers.hpp"
#include "actors/inference/served_model.hpp"
#include "kernels/model/model_code.hpp"

namespace gpunode::inference {
namespace {

Error not_served() {
  return {ErrorCode::unavailable, "the model is not loaded"};
}

}  // namespace

void RowDesk::open(ServedModel& model) {
  const auto held = hold();
  std::lock_guard lock(mutex_);
  model_ = &model;
  figures_ = model.figures();
  warm_up();
  features_ = model.row_features();
  computes_here_ = model.device().backend().capabilities().host_accessible;
}

void RowDesk::close() {
  std::vector<Ended> ended;
  {
    const auto held = hold();
    std::lock_guard lock(mutex_);
    model_ = nullptr;
    features_ = 0;
    for (auto& [id, one] : waiting_) {
      batch_.end(id);
      ended.push_back({std::move(one.done), not_served()});
    }
    waiting_.clear();
  }
  tell(std::move(ended));
}

// Passes of nobody, so that those of others need not find out how long they take. The first of each size
// makes what it needs.
void RowDesk::warm_up() {
  constexpr auto kLongEnough = std::chrono::milliseconds(200);
  for (const std::size_t rows : {std::size_t{1}, std::size_t{8}, RowBatch::Limits().rows}) {
    Duration took{};
    for (int times = 0; times < 2 && took < kLongEnough; ++times) {
      const std::vector<float> none(rows * model_->row_features());
      std::vector<float> scores(rows * model_->row_classes());
      const Time begin = clock_.now();
      if (!model_->score_rows(none, scores)) return;
      took = clock_.now() - begin;
    }
    batch_.on_done(rows, took);
    if (took >= kLongEnough) return;
  }
}

void RowDesk::replace(const std::unique_lock<std::mutex>&, ServedModel& model) {
  std::lock_guard lock(mutex_);
  model_ = &model;
  computes_here_ = model.device().backend().capabilities().host_accessible;
}

void RowDesk::set_version(std::uint64_t version) {
  const auto held = hold();
  if (model_) model_->set_version(version);
}

bool RowDesk::is_idle() const {
  std::lock_guard lock(mutex_);
  return waiting_.empty();
}

void RowDesk::ask(const InferRequest& request, const std::string& client, Time deadline,
                  Done done) {
  last_asked_ = clock_.now();
  const std::size_t features = features_;
  if (features == 0) return done(not_served());
  auto rows = features_in(request, features);
  if (!rows) return refuse(done, rows.error());
  const std::size_t count = rows->size() / features;
  bool quick = false;
  {
    std::unique_lock lock(mutex_);
    const auto id = features_ == features ? batch_.add(last_asked_, {count, deadline, client})
                                          : Result<RowBatch::Id>(not_served());
    if (!id) {
      lock.unlock();
      return refuse(done, id.error());
    }
    waiting_[*id] = {*std::move(rows), {}, std::move(done)};
    const auto usual = batch_.usual_next();
    quick = computes_here_ && usual && *usual <= quick_;
  }
  if (std::unique_lock computing(computing_, std::defer_lock); quick && computing.try_lock()) {
    std::vector<Ended> ended = pass();
    computing.unlock();
    tell(std::move(ended));
  }
  {
    std::lock_guard lock(mutex_);
    if (batch_.is_empty() || std::exchange(called_, true)) return;
  }
  work_();
}

bool RowDesk::work() {
  {
    std::lock_guard lock(mutex_);
    called_ = false;
  }
  std::vector<Ended> ended;
  {
    const auto held = hold();
    ended = pass();
  }
  tell(std::move(ended));
  std::lock_guard lock(mutex_);
  return !batch_.is_empty() && !std::exchange(called_, true);
}

// Counted as one of the model's.
void RowDesk::refuse(const Done& done, const Error& why) const {
  const Result<InferAnswer> told = why;
  std::shared_ptr<ModelFigures> figures;
  {
    std::lock_guard lock(mutex_);
    figures = figures_;
  }
  if (figures) figures->ended(told);
  done(told);
}

void RowDesk::tell(std::vector<Ended> ended) {
  for (Ended& one : ended) one.done(std::move(one.answer));
}

// With computing_.
std::vector<RowDesk::Ended> RowDesk::pass() {
  std::vector<Ended> ended;
  RowBatch::Pass pass;
  {
    std::lock_guard lock(mutex_);
    if (!model_) return ended;
    pass = batch_.next(clock_.now());
    for (const RowBatch::Id id : pass.late) {
      const Result<InferAnswer> late = Error{
          ErrorCode::resource_exhausted,
          "the rows would not have been answered before the deadline: try again in a moment, or "
          "allow more time"};
      if (figures_) figures_->ended(late);
      ended.push_back({std::move(waiting_.at(id).done), late});
      waiting_.erase(id);
    }
  }
  if (pass.rows == 0) return ended;
  Duration took{};
  const auto scores = model::guarded("the model", [&] { return compute(pass, took); });
  std::lock_guard lock(mutex_);
  if (scores) batch_.on_done(pass.rows, took);
  std::size_t at = 0;
  const std::size_t classes = model_->row_classes();
  for (const RowBatch::Part& part : pass.parts) {
    const std::size_t values = part.count * classes;
    const auto it = waiting_.find(part.id);
    Waiting& one = it->second;
    one.took += took;
    if (scores)
      one.scores.insert(one.scores.end(), scores->begin() + static_cast<std::ptrdiff_t>(at),
                        scores->begin() + static_cast<std::ptrdiff_t>(at + values));
    at += values;
    if (scores && !part.is_last) continue;
    auto answer =
        scores ? told_rows(one.scores, *model_, one.took) : Result<InferAnswer>(scores.error());
    if (figures_) figures_->ended(answer);
    batch_.end(part.id);
    ended.push_back({std::move(one.done), std::move(answer)});
    waiting_.erase(it);
  }
  return ended;
}

Result<std::vector<float>> RowDesk::compute(const RowBatch::Pass& pass, Duration& took) {
  const std::size_t features = model_->row_features();
  std::vector<float> rows, scores(pass.rows * model_->row_classes());
  {
    std::lock_guard lock(mutex_);
    for (const RowBatch::Part& part : pass.parts) {
      const auto own = std::span(waiting_.at(part.id).rows)
                           .subspan(part.first * features, part.count * features);
      rows.insert(rows.end(), own.begin(), own.end());
    }
  }
  const Time begin = clock_.now();
  const auto done = model_->score_rows(rows, scores);
  took = clock_.now() - begin;
  if (!done) return done.error();
  return scores;
}

}  // namespace gpunode::inference
