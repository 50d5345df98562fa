// The connections of a server that nobody works on: each waits for something to come, or for its time to
// be over. Owned by the thread that watches; all of it is that thread's alone. Costs an epoll set.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/http/detail/connection.hpp"

namespace gpunode::http::detail {

class Resting {
 public:
  using Owned = std::unique_ptr<Connection>;

  // No descriptor is to be had: is_open() is false.
  Resting();
  bool is_open() const { return set_.get() >= 0; }
  // Something else to be waited for; wait() gives its number.
  bool watch(int number) const;
  void unwatch(int number) const;

  void add(Owned connection);
  // The one with that number, if it rests.
  Owned take(int number);
  // One whose time is over by now.
  Owned take_late(SteadyTime now);
  // One that has begun no request, and was not told the end either.
  Owned take_idle();
  // Of that address the one that waits for longest.
  Owned take_longest(const std::string& client);

  // The numbers of those that something has come to, at the latest when the first one's time is over.
  const std::vector<int>& wait();

 private:
  const Descriptor set_;
  std::unordered_map<int, Owned> all_;
  std::set<std::pair<SteadyTime, int>> times_;
  std::map<std::string, std::set<std::pair<SteadyTime, int>>> of_client_;  // since when
  std::vector<int> ready_;
};

}  // namespace gpunode::http::detail
