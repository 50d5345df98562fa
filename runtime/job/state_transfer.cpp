#include "runtime/job/state_transfer.hpp"

#include "runtime/base/block_digest.hpp"

#include <algorithm>
#include <cstring>

namespace gpunode::job {

namespace {
constexpr Duration kInUse = std::chrono::seconds(5);     // after the last read
constexpr Duration kKeptFor = std::chrono::seconds(15);  // likewise
constexpr std::uint64_t kMaxStepsAhead = 1024;
constexpr std::size_t kMaxWaiting = 256;
constexpr Duration kLongestSilence = std::chrono::seconds(80);
}  // namespace

void StateSource::set_current(Time now, StateMeta meta, Effects& out) {
  current_ = std::move(meta);
  std::vector<NodeId> due;
  for (auto it = wanted_.begin(); it != wanted_.end();) {
    if (it->second == current_->step) due.push_back(it->first);
    it = it->second <= current_->step ? wanted_.erase(it) : std::next(it);
  }
  if (!due.empty() && in_use(now)) {
    for (const NodeId& node : due) out.replies.push_back({node, snapshot_->meta});
    return;
  }
  for (const NodeId& node : due) read_current(node, out);
}

void StateSource::clear() {
  current_.reset();
  pending_.reset();
  snapshot_.reset();
  wanted_.clear();
}

bool StateSource::in_use(Time now) const {
  return snapshot_ && now < snapshot_->used + kInUse;
}

void StateSource::on_tick(Time now) {
  if (snapshot_ && now >= snapshot_->used + kKeptFor) snapshot_.reset();
}

void StateSource::forget_before(std::uint64_t step) {
  if (snapshot_ && snapshot_->meta.step < step) snapshot_.reset();
}

void StateSource::read_current(const NodeId& from, Effects& out) {
  if (pending_ && pending_->meta.step == current_->step) {
    pending_->asking.insert(from);
    return;
  }
  pending_ = Pending{next_token_++, *current_, {from}};
  out.read_token = pending_->token;
}

void StateSource::on_ask(Time now, const NodeId& from, const StateAsk& ask, bool urgent,
                         Effects& out) {
  const auto is_asked = [&](const StateMeta& meta) {
    return meta.step == ask.step && (ask.digest == Digest{} || ask.digest == meta.digest);
  };
  const bool is_it = snapshot_ && is_asked(snapshot_->meta);
  if (is_it || (!urgent && in_use(now))) {
    snapshot_->used = now;
    out.replies.push_back({from, snapshot_->meta});
    return;
  }
  if (pending_ && is_asked(pending_->meta)) {
    pending_->asking.insert(from);
    return;
  }
  if (current_ && is_asked(*current_)) return read_current(from, out);
  const std::uint64_t now_at = current_ ? current_->step : 0;
  const bool to_come = ask.step > now_at && ask.step <= now_at + kMaxStepsAhead;
  if ((to_come || !current_) && (wanted_.size() < kMaxWaiting || wanted_.contains(from)))
    wanted_[from] = ask.step;
}

void StateSource::on_snapshot(Time now, std::uint64_t token, SharedBytes state, Effects& out) {
  if (!pending_ || pending_->token != token) return;
  pending_->meta.size_bytes = state.size();
  for (const NodeId& node : pending_->asking) out.replies.push_back({node, pending_->meta});
  snapshot_ = Snapshot{pending_->meta, std::move(state), now};
  pending_.reset();
}

void StateSource::on_read(Time now, const NodeId& from, const StateRead& read,
                          std::uint32_t part_bytes, Effects& out) {
  if (!snapshot_ || snapshot_->meta.digest != read.digest) return;
  if (read.offset >= snapshot_->bytes.size() || read.length > part_bytes) return;
  snapshot_->used = now;
  const std::uint64_t length =
      std::min<std::uint64_t>(read.length, snapshot_->bytes.size() - read.offset);
  out.replies.push_back(
      {from, StatePart{read.digest, read.offset, snapshot_->bytes.part(read.offset, length)}});
}

StateFetch::StateFetch(Options options)
    : options_(std::move(options)), progressed_(options_.began) {}

void StateFetch::restart() {
  meta_.reset();
  holders_.clear();
  offers_.clear();
  buffer_.reset();
  have_.clear();
  under_way_.clear();
  first_missing_ = 0;
  received_bytes_ = 0;
}

void StateFetch::set_sources(std::vector<NodeId> sources) {
  options_.sources = std::move(sources);
  asked_at_.reset();
  std::erase_if(holders_, [&](const auto& one) { return !is_source(one.first); });
  std::erase_if(under_way_, [&](const auto& one) { return !is_source(one.second.source); });
}

void StateFetch::ask_also(const std::vector<NodeId>& nodes) {
  if (options_.state_digest == Digest{}) return;
  for (const NodeId& node : nodes)
    if (!is_source(node)) options_.sources.push_back(node);
}

bool StateFetch::is_abandoned(Time now) const {
  return meta_ && holders_.empty() && now >= offered_ + options_.timeout;
}

void StateFetch::lose(const NodeId& source) {
  std::erase_if(under_way_, [&](const auto& one) { return one.second.source == source; });
}

void StateFetch::drop(const NodeId& source) {
  lose(source);
  holders_.erase(source);
}

void StateFetch::on_tick(Time now, Effects& out) {
  if (!asked_at_ || now >= *asked_at_ + options_.ask_every) {
    asked_at_ = now;
    for (const NodeId& source : options_.sources)
      if (!holders_.contains(source))
        out.sends.push_back({source, StateAsk{options_.step, options_.state_digest}});
  }
  for (auto it = under_way_.begin(); it != under_way_.end();) {
    const auto holder = holders_.find(it->second.source);
    if (holder != holders_.end() &&
        now < std::max(it->second.at, holder->second.progress) + holder->second.timeout) {
      ++it;
      continue;
    }
    // It must answer an ask before it is asked for parts again, and gets longer for them then: of one
    // whose uplink many want, what is asked for again only makes the others wait.
    if (holder != holders_.end()) {
      silence_[holder->first] = std::min(2 * holder->second.timeout, kLongestSilence);
      holders_.erase(holder);
    }
    it = under_way_.erase(it);
  }
  request_more(now, out);
}

void StateFetch::on_meta(Time now, const NodeId& from, const StateMeta& meta, Effects& out) {
  if (meta.step != options_.step || !is_source(from)) return;
  const std::string size = std::to_string(meta.size_bytes);
  if (meta.size_bytes == 0 || meta.size_bytes != options_.size_bytes)
    return refuse(from, "a state of " + size + " bytes, which none of this job has", out);
  const bool wrong_state =
      options_.state_digest != Digest{} && meta.digest != options_.state_digest;
  const bool wrong_result = !view::agree(options_.result_digest, meta.result_digest);
  if (wrong_state || wrong_result) return refuse(from, "another state than the view names", out);
  if (!meta_) {
    meta_ = meta;
    buffer_ = std::make_shared<Bytes>(meta.size_bytes);
    have_.assign((meta.size_bytes + options_.part_bytes - 1) / options_.part_bytes, false);
  }
  if (meta.digest != meta_->digest)
    return refuse(from, "another state after step " + std::to_string(meta.step) + " than others",
                  out);
  offered_ = now;
  offers_[from] = meta;
  holders_.try_emplace(from, Holder{now, silence_of(from)});
  request_more(now, out);
}

bool StateFetch::is_source(const NodeId& node) const {
  return std::ranges::find(options_.sources, node) != options_.sources.end();
}

Duration StateFetch::silence_of(const NodeId& source) const {
  const auto longer = silence_.find(source);
  return longer == silence_.end() ? options_.first_timeout : longer->second;
}

// A source is told of once: it may offer the same again and again.
void StateFetch::refuse(const NodeId& from, std::string why, Effects& out) {
  if (refused_.insert(from).second)
    out.report = "node " + from.short_text() + " offers " + std::move(why);
}

// The digest proves the bytes; what goes with them is what most sources tell. Of equally many the
// first that offered the state counts.
StateMeta StateFetch::commonest_offer() const {
  const auto told = [this](const StateMeta& meta) {
    return std::count_if(offers_.begin(), offers_.end(), [&](const auto& one) {
      return one.second.result_digest == meta.result_digest &&
             one.second.data_fingerprint == meta.data_fingerprint;
    });
  };
  StateMeta commonest = *meta_;
  for (const auto& [node, meta] : offers_)
    if (told(meta) > told(commonest)) commonest = meta;
  return commonest;
}

void StateFetch::request_more(Time now, Effects& out) {
  if (!meta_ || holders_.empty()) return;
  std::map<NodeId, std::uint32_t> load;
  for (const auto& [part, asked] : under_way_) ++load[asked.source];
  std::uint64_t part = first_missing_;
  for (bool placed = true; placed;) {
    placed = false;
    for (const auto& [source, holder] : holders_) {
      if (load[source] >= options_.window) continue;
      while (part < have_.size() && (have_[part] || under_way_.contains(part))) ++part;
      if (part >= have_.size()) return;
      under_way_[part] = {source, now};
      ++load[source];
      placed = true;
      out.sends.push_back(
          {source, StateRead{meta_->digest, part * options_.part_bytes, options_.part_bytes}});
    }
  }
}

void StateFetch::on_part(Time now, const NodeId& from, const StatePart& part, Effects& out) {
  if (!meta_ || part.digest != meta_->digest || part.offset % options_.part_bytes != 0) return;
  const std::uint64_t number = part.offset / options_.part_bytes;
  // Also one that was not waited for any more, as it was late.
  if (number >= have_.size() || have_[number] || !offers_.contains(from) || !is_source(from))
    return;
  const std::uint64_t expected =
      std::min<std::uint64_t>(options_.part_bytes, meta_->size_bytes - part.offset);
  if (part.payload.size() != expected) return;
  const auto [holder, fresh] = holders_.try_emplace(from, Holder{now, silence_of(from)});
  const auto asked = under_way_.find(number);
  // How long a late one took that somebody else is asked for by now, nobody knows.
  if (!fresh && asked != under_way_.end() && asked->second.source == from) {
    const Duration took = now - std::max(asked->second.at, holder->second.progress);
    holder->second.timeout = std::clamp(4 * took, options_.timeout, 3 * options_.first_timeout);
  }
  holder->second.progress = offered_ = progressed_ = now;
  std::memcpy(buffer_->data() + part.offset, part.payload.view.data(), expected);
  have_[number] = true;
  received_bytes_ += expected;
  under_way_.erase(number);
  while (first_missing_ < have_.size() && have_[first_missing_]) ++first_missing_;
  if (first_missing_ == have_.size())
    finish(out);
  else
    request_more(now, out);
}

void StateFetch::on_message(Time now, const NodeId& from, const JobBody& body, Effects& out) {
  if (const auto* meta = std::get_if<StateMeta>(&body)) on_meta(now, from, *meta, out);
  if (const auto* part = std::get_if<StatePart>(&body)) on_part(now, from, *part, out);
}

void StateFetch::finish(Effects& out) {
  if (block_digest_of(*buffer_) != meta_->digest) {
    out.report = "the received state does not match its digest; fetching it again";
    restart();
    return;
  }
  meta_ = commonest_offer();
  out.complete = SharedBytes{buffer_, ByteView(buffer_->data(), buffer_->size())};
}

}  // namespace gpunode::job
