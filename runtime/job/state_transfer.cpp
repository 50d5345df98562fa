#include "runtime/job/state_transfer.hpp"

#include "runtime/base/block_digest.hpp"

#include <algorithm>
#include <cstring>

namespace gpunode::job {

void StateSource::set_current(StateMeta meta) {
  if (current_ && current_->step == meta.step && current_->digest == meta.digest) return;
  clear();
  current_ = std::move(meta);
}

void StateSource::clear() {
  current_.reset();
  snapshot_.reset();
  pending_token_.reset();
  asking_.clear();
}

void StateSource::on_ask(const NodeId& from, const StateAsk& ask, Effects& out) {
  if (!current_ || current_->step != ask.step) return;
  if (snapshot_) {
    out.replies.push_back({from, *current_});
    return;
  }
  asking_.insert(from);
  if (pending_token_) return;
  pending_token_ = next_token_++;
  out.read_token = pending_token_;
}

void StateSource::on_snapshot(std::uint64_t token, SharedBytes state, Effects& out) {
  if (!current_ || pending_token_ != token) return;
  pending_token_.reset();
  current_->size_bytes = state.size();
  snapshot_ = std::move(state);
  for (const NodeId& node : asking_) out.replies.push_back({node, *current_});
  asking_.clear();
}

void StateSource::on_read(const NodeId& from, const StateRead& read, std::uint32_t part_bytes,
                          Effects& out) {
  if (!current_ || !snapshot_ || current_->step != read.step) return;
  if (read.offset >= snapshot_->size() || read.length > part_bytes) return;
  const std::uint64_t length =
      std::min<std::uint64_t>(read.length, snapshot_->size() - read.offset);
  out.replies.push_back(
      {from, StatePart{read.step, read.offset, snapshot_->part(read.offset, length)}});
}

StateFetch::StateFetch(Options options) : options_(std::move(options)) {}

void StateFetch::restart() {
  meta_.reset();
  holders_.clear();
  buffer_.reset();
  have_.clear();
  under_way_.clear();
  first_missing_ = 0;
  received_bytes_ = 0;
}

void StateFetch::set_sources(std::vector<NodeId> sources) {
  options_.sources = std::move(sources);
  asked_at_.reset();
  const auto is_source = [&](const NodeId& node) {
    return std::find(options_.sources.begin(), options_.sources.end(), node) !=
           options_.sources.end();
  };
  std::erase_if(holders_, [&](const NodeId& node) { return !is_source(node); });
  std::erase_if(under_way_, [&](const auto& one) { return !is_source(one.second.source); });
}

void StateFetch::on_tick(Time now, Effects& out) {
  if (!asked_at_ || now >= *asked_at_ + options_.ask_every) {
    asked_at_ = now;
    for (const NodeId& source : options_.sources)
      if (!holders_.contains(source)) out.sends.push_back({source, StateAsk{options_.step}});
  }
  for (auto it = under_way_.begin(); it != under_way_.end();) {
    if (now < it->second.at + options_.part_timeout) {
      ++it;
      continue;
    }
    holders_.erase(it->second.source);  // it must answer an ask before it is trusted with parts
    it = under_way_.erase(it);
  }
  request_more(now, out);
}

void StateFetch::on_meta(Time now, const NodeId& from, const StateMeta& meta, Effects& out) {
  const auto& sources = options_.sources;
  if (meta.step != options_.step ||
      std::find(sources.begin(), sources.end(), from) == sources.end())
    return;
  if (meta.size_bytes == 0 || meta.size_bytes > options_.max_bytes) {
    out.report = "node " + from.short_text() + " offers a state of " +
                 std::to_string(meta.size_bytes) + " bytes, which is not accepted";
    return;
  }
  const bool wrong_state =
      options_.state_digest != Digest{} && meta.digest != options_.state_digest;
  const bool wrong_result = options_.result_digest != Digest{} && meta.result_digest != Digest{} &&
                            meta.result_digest != options_.result_digest;
  if (wrong_state || wrong_result) {
    out.report = "node " + from.short_text() + " offers another state than the view names";
    return;
  }
  if (!meta_) {
    meta_ = meta;
    buffer_ = std::make_shared<Bytes>(meta.size_bytes);
    have_.assign((meta.size_bytes + options_.part_bytes - 1) / options_.part_bytes, false);
  }
  if (meta.digest != meta_->digest || meta.size_bytes != meta_->size_bytes) {
    out.report = "members offer different states at step " + std::to_string(options_.step);
    return;
  }
  holders_.insert(from);
  request_more(now, out);
}

void StateFetch::request_more(Time now, Effects& out) {
  if (!meta_ || holders_.empty()) return;
  std::map<NodeId, std::uint32_t> load;
  for (const auto& [part, asked] : under_way_) ++load[asked.source];
  std::uint64_t part = first_missing_;
  for (bool placed = true; placed;) {
    placed = false;
    for (const NodeId& source : holders_) {
      if (load[source] >= options_.window) continue;
      while (part < have_.size() && (have_[part] || under_way_.contains(part))) ++part;
      if (part >= have_.size()) return;
      under_way_[part] = {source, now};
      ++load[source];
      placed = true;
      out.sends.push_back(
          {source, StateRead{options_.step, part * options_.part_bytes, options_.part_bytes}});
    }
  }
}

void StateFetch::on_part(Time now, const NodeId& from, const StatePart& part, Effects& out) {
  if (!meta_ || part.step != options_.step || part.offset % options_.part_bytes != 0) return;
  const std::uint64_t number = part.offset / options_.part_bytes;
  if (number >= have_.size() || have_[number] || !holders_.contains(from)) return;
  const std::uint64_t expected =
      std::min<std::uint64_t>(options_.part_bytes, meta_->size_bytes - part.offset);
  if (part.payload.size() != expected) return;
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

void StateFetch::finish(Effects& out) {
  if (block_digest_of(*buffer_) != meta_->digest) {
    out.report = "the received state does not match its digest; fetching it again";
    restart();
    return;
  }
  out.complete = SharedBytes{buffer_, ByteView(buffer_->data(), buffer_->size())};
}

}  // namespace gpunode::job
