// Who is let in at the HTTP front, and how much each may have under way: keys, their rights and quotas,
// and a bound on what all ask together, so that who looks after the node is always answered. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "actors/inference/api_quota.hpp"
#include "actors/inference/key_ring.hpp"
#include "actors/inference/model_name.hpp"
#include "runtime/http/request.hpp"

namespace gpunode::inference {

// Who asks: a key, or anybody where none is wanted.
struct Caller {
  std::optional<ApiKey> key = {};

  // Fail with permission_denied, naming what the key may.
  Result<void> may(ApiRights right) const;
  Result<void> may_use(std::string_view model) const;
  Result<void> may_go_first(std::uint32_t priority) const;  // 0: whoever may ask at all
  // Whichever version of it is meant ("NAME@NUMBER").
  bool sees(std::string_view model) const { return !key || key->may_use(name_in(model)); }
};

class HttpGate {
 public:
  // Who, by the key's name, was refused what.
  using Refused = std::function<void(const std::string& key, std::string_view what)>;
  // Null keys: anybody is let in. Both outlive it. `at_once`: requests that a model works on. `refused`: is
  // told of quotas that are used up.
  HttpGate(KeyRing* keys, const Clock& clock, std::size_t at_once, Refused refused = {})
      : keys_(keys), clock_(clock), at_once_(at_once), refused_(std::move(refused)) {}

  // By the header "Authorization: Bearer KEY". Fails with unauthenticated, unavailable.
  Result<Caller> admit(const http::Request& asked) const;
  bool wants_keys() const { return keys_ && keys_->is_wanted(); }

  // A request that a model works on, until it is destroyed. What it may use of tokens counts as used
  // until it has told how many they were.
  class Ticket {
   public:
    Ticket(HttpGate& gate, Caller caller, std::uint64_t tokens)
        : gate_(gate), caller_(std::move(caller)), tokens_(tokens), used_(tokens) {}
    ~Ticket();
    Ticket(const Ticket&) = delete;
    void set_used(std::uint64_t tokens) { used_ = tokens; }
    // Whether its key is good still.
    bool is_good() const;

   private:
    HttpGate& gate_;
    const Caller caller_;
    const std::uint64_t tokens_;
    std::uint64_t used_;
  };
  // Fails with resource_exhausted (a quota of the key), unavailable (all that may be is under way);
  // `retry_after` tells when there will be room.
  Result<std::shared_ptr<Ticket>> begin(const Caller& caller, std::uint64_t tokens,
                                        std::chrono::seconds& retry_after);

 private:
  KeyRing* const keys_;
  const Clock& clock_;
  const std::size_t at_once_;
  const Refused refused_;
  std::mutex mutex_;
  std::size_t under_way_ = 0;
  ApiQuota quota_;
};

}  // namespace gpunode::inference
