// `loop` of a for: where it is, and what comes before and after. It looks ahead as far as asked.
#include "runtime/chat/detail/value.hpp"

namespace gpunode::chat::detail {

std::optional<Value> Loop::advance() {
  auto value = peeked_ ? std::move(next_) : std::nullopt;
  if (!peeked_) {
    peek();
    value = std::move(next_);
  }
  peeked_ = false;
  next_.reset();
  if (!value) return std::nullopt;
  ++index_;
  before_ = std::move(current_);
  current_ = value;
  return value;
}

const std::optional<Value>& Loop::peek() {
  if (peeked_) return next_;
  peeked_ = true;
  if (ahead_at_ < ahead_.size())
    next_ = ahead_[ahead_at_++];
  else
    next_ = rest_->next();
  return next_;
}

std::int64_t Loop::length() {
  if (length_) return *length_;
  while (auto value = rest_->next()) ahead_.push_back(*std::move(value));
  length_ = index_ + 1 + static_cast<std::int64_t>(ahead_.size() - ahead_at_) +
            (peeked_ && next_ ? 1 : 0);
  return *length_;
}

std::optional<Value> Loop::attribute(std::string_view name) {
  if (name == "index") return index_ + 1;
  if (name == "index0") return index_;
  if (name == "first") return index_ == 0;
  if (name == "last") return !peek();
  if (name == "length") return length();
  if (name == "revindex") return length() - index_;
  if (name == "revindex0") return length() - index_ - 1;
  if (name == "depth") return std::int64_t{1};
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem") return before_ && index_ > 0 ? *before_ : undefined("loop.previtem");
  if (name == "nextitem") return peek() ? *peek() : undefined("loop.nextitem");
  if (name == "cycle" || name == "changed") not_known("loop." + std::string(name));
  return std::nullopt;
}

}  // namespace gpunode::chat::detail
