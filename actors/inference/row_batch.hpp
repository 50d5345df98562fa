// Which of the requests for rows a model answers together next: as many rows as there are, up to a pass's
// most. Whoever has had least goes first, then who came first. Who cannot wait for so large a pass is
// answered in a smaller one before it, if that makes nobody else late: else little would be answered at all
// where more comes than can be. A request of many rows is answered over several passes, beside the others.
// How long a pass takes it learns from those that were made. What could not be answered in time is refused
// when it comes, or at the latest before anything is computed for it; where all that wait are refused so, it
// believes a little less in what it has learnt: a pass that was slow once is tried again.
// Pure; owned by a model's desk (row_desk.hpp).
//   waiting  --next()-->  in a pass  --on_done()-->  gone, or waiting for its other rows
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::inference {

class RowBatch {
 public:
  struct Limits {
    std::size_t rows = 64;                    // of a pass
    std::size_t most_waiting_rows = 1 << 16;  // half of them of one client
    std::size_t most_waiting = 4096;          // requests; the same
  };
  struct Order {
    std::size_t rows = 0;  // one at least
    Time deadline{};
    std::string client;  // among whom what there is is divided
  };
  using Id = std::uint64_t;

  RowBatch() : RowBatch(Limits()) {}
  explicit RowBatch(const Limits& limits) : limits_(limits) {}

  // Fails with: timeout (its deadline is over), invalid_argument (more rows than a client may have waiting),
  // resource_exhausted (as many wait as may, or it would not be answered before its deadline).
  Result<Id> add(Time now, Order order);
  // It is over, however it ended.
  void end(Id id);

  struct Part {
    Id id = 0;
    std::size_t first = 0, count = 0;  // of its rows
    bool is_last = false;
  };
  struct Pass {
    std::vector<Part> parts;
    std::vector<Id> late;  // could not be answered any more: over
    std::size_t rows = 0;
  };
  // What is to be answered now; no rows: nothing waits.
  Pass next(Time now);
  // A pass of so many rows was made.
  void on_done(std::size_t rows, Duration took);

  bool is_empty() const { return waiting_.empty(); }
  // How long a pass of so many rows takes, at least one; nothing: none was made yet.
  std::optional<Duration> usual(std::size_t rows) const;
  // The same, of the next pass.
  std::optional<Duration> usual_next() const {
    return usual(std::min(limits_.rows, waiting_rows_));
  }

 private:
  struct Waiting {
    Order order;
    std::size_t done = 0;  // rows
  };
  struct Client {
    std::uint64_t had = 0;               // rows
    std::size_t requests = 0, rows = 0;  // that wait
  };
  std::vector<Id> in_turn() const;
  std::vector<Id> take_hurried(Time now, std::size_t rows, std::vector<Id>& ids,
                               std::vector<Id>& late) const;
  bool is_late(Time now, Time deadline, std::size_t rows) const;
  void doubt();
  static std::size_t size_of(std::size_t rows);

  static constexpr std::size_t kSizes = 17;  // powers of two
  Limits limits_;
  std::map<Id, Waiting> waiting_;  // in the order in which they came
  std::map<std::string, Client> clients_;
  std::size_t waiting_rows_ = 0;
  // What who was served first had afterwards, in any pass: nobody who comes again may have had less, or those
  // who stay and ask for much would never be those who had least.
  std::uint64_t floor_ = 0;
  std::array<std::optional<Duration>, kSizes> took_{};  // by the rows' number, rounded up
  Id last_ = 0;
};

}  // namespace gpunode::inference
