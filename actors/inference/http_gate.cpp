#include "actors/inference/http_gate.hpp"

#include <algorithm>

namespace gpunode::inference {
namespace {

constexpr std::string_view kScheme = "bearer ";

bool is_scheme(std::string_view text) {
  return text.size() >= kScheme.size() &&
         std::equal(kScheme.begin(), kScheme.end(), text.begin(), [](char small, char letter) {
           return small == letter || small - ('a' - 'A') == letter;
         });
}

}  // namespace

Result<void> Caller::may(ApiRights right) const {
  if (!key || (key->may & right) != 0) return {};
  return Error{ErrorCode::permission_denied, "key '" + key->name + "' lacks the right " +
                                                 api_rights_text(right) + "; it may " +
                                                 api_rights_text(key->may)};
}

Result<void> Caller::may_use(std::string_view model) const {
  if (auto right = may(kMayInfer); !right) return right;
  if (sees(model)) return {};
  return Error{ErrorCode::permission_denied,
               "key '" + key->name + "' may not use the model '" + std::string(model) + "'"};
}

Result<void> Caller::may_go_first(std::uint32_t priority) const {
  return priority == 0 ? Result<void>() : may(kMayGoFirst);
}

Result<Caller> HttpGate::admit(const http::Request& asked) const {
  if (!wants_keys()) return Caller{};
  std::string_view given = asked.header("authorization");
  if (!is_scheme(given))
    return Error{ErrorCode::unauthenticated,
                 "an API key is wanted: send the header \"Authorization: Bearer KEY\" (`gpunode "
                 "http-key create` makes keys)"};
  given.remove_prefix(kScheme.size());
  while (given.starts_with(' ')) given.remove_prefix(1);
  auto key = keys_->find(given);
  if (!key) return key.error();
  return Caller{*std::move(key)};
}

bool HttpGate::Ticket::is_good() const {
  return !caller_.key || gate_.keys_->has(*caller_.key);
}

HttpGate::Ticket::~Ticket() {
  std::lock_guard lock(gate_.mutex_);
  --gate_.under_way_;
  if (caller_.key) gate_.quota_.end(*caller_.key, tokens_, used_, gate_.clock_.now());
}

Result<std::shared_ptr<HttpGate::Ticket>> HttpGate::begin(const Caller& caller,
                                                          std::uint64_t tokens,
                                                          std::chrono::seconds& retry_after) {
  retry_after = std::chrono::seconds(1);
  std::lock_guard lock(mutex_);
  if (under_way_ >= at_once_)
    return Error{ErrorCode::unavailable, "as many requests are under way here as may be (" +
                                             std::to_string(at_once_) +
                                             "): try again in a moment, or ask another node"};
  if (caller.key)
    if (auto refused = quota_.begin(*caller.key, tokens, clock_.now())) {
      retry_after = refused->retry_after;
      if (refused_) refused_(caller.key->name, "a request over its quota");
      return Error{ErrorCode::resource_exhausted, std::move(refused->why)};
    }
  ++under_way_;
  return std::make_shared<Ticket>(*this, caller, tokens);
}

}  // namespace gpunode::inference
