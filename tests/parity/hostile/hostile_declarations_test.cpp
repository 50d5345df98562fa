// What operations touch is what kernels/ops/access.hpp declares, for every entry of the table; and the
// device that says so would notice: each operation, made to read or write one float before or behind
// each of the ranges it declares, is found and named.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/ops/access.hpp"
#include "kernels/ops/operation_list.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"
#include "tests/parity/op_table.hpp"

namespace gpunode::hostile {
namespace {

const ops::Operations& right() {
  static const auto host = cpu::open_backend();
  return host->operations();
}

// What the operation that goes wrong does besides its work.
struct Wrong {
  std::string_view operation;  // none: all are right
  std::size_t range = 0;       // of what it declares
  bool writes = false, before = false;
  bool was_done = false;
};
Wrong wrong;
std::set<std::string_view> have_run;
std::size_t most_ranges = 0;  // of the calls of wrong.operation

// One float outside of the range, if no other range has it.
void touch(std::span<const ops::Access> ranges) {
  most_ranges = std::max(most_ranges, ranges.size());
  if (wrong.range >= ranges.size()) return;
  const ops::Access& range = ranges[wrong.range];
  const std::byte* place = wrong.before ? range.data - sizeof(float) : range.data + range.bytes;
  for (const ops::Access& other : ranges)
    if (place < other.data + other.bytes && other.data < place + sizeof(float)) return;
  wrong.was_done = true;
  float value = 0;
  std::memcpy(&value, place, sizeof value);
  // The value must show, or a compiler could leave the reading out.
  if (wrong.writes) std::memcpy(const_cast<std::byte*>(place), &++value, sizeof value);
  [[maybe_unused]] volatile float seen = value;
}

template <auto kEntry, class Args>
struct Overreach {
  static inline std::string_view name;
  static Result<void> run(tensor::Stream& stream, tensor::Workspace& workspace, const Args& args) {
    auto done = (right().*kEntry)(stream, workspace, args);
    have_run.insert(name);
    if (done && name == wrong.operation) touch(ops::accesses_of(args));
    return done;
  }
};

struct Replace {
  ops::Operations& table;
  template <auto kEntry>
  void operator()(std::string_view name) const {
    table.*kEntry = entry_for<kEntry>(name, right().*kEntry);
  }
  template <auto kEntry, class Args>
  static ops::Operation<Args>* entry_for(std::string_view name, ops::Operation<Args>*) {
    Overreach<kEntry, Args>::name = name;
    return Overreach<kEntry, Args>::run;
  }
};

std::string first_error(const parity::Case& one, Guard guard) {
  ops::Operations table;
  ops::for_each_operation(Replace{table});
  auto backend = open_backend({.pace = Pace::when_waited_for, .guard = guard, .arithmetic = table});
  EXPECT_TRUE(backend);
  static_cast<void>(parity::run_case(one, **backend));
  return (*backend)->report().first_error;
}

struct Names {
  std::vector<std::string_view>& names;
  template <auto kEntry>
  void operator()(std::string_view name) const {
    names.push_back(name);
  }
};
std::vector<std::string_view> operations() {
  std::vector<std::string_view> names;
  ops::for_each_operation(Names{names});
  return names;
}

// The row of the parity table that runs each operation first.
std::map<std::string_view, const parity::Case*> rows() {
  std::map<std::string_view, const parity::Case*> found;
  for (const parity::Case& one : parity::cases()) {
    have_run.clear();
    EXPECT_EQ(first_error(one, Guard::none), "") << one.name;
    for (const std::string_view name : have_run) found.emplace(name, &one);
  }
  return found;
}

// Tries what `wrong` says with each range in turn; how often there was something to be found.
std::size_t count_found(const parity::Case& row, Wrong attempt) {
  const std::string begin = std::string(attempt.operation) + " #";
  const std::string verb = attempt.before ? " bytes before '" : " bytes beyond '";
  std::size_t found = 0;
  most_ranges = 1;
  for (; attempt.range < most_ranges; ++attempt.range) {
    wrong = attempt;
    const std::string error = first_error(row, attempt.before ? Guard::before : Guard::behind);
    if (!wrong.was_done) continue;
    ++found;
    EXPECT_EQ(error.rfind(begin, 0), 0u) << attempt.range << ": " << error;
    EXPECT_NE(error.find(verb), std::string::npos) << attempt.range << ": " << error;
  }
  wrong = {};
  return found;
}

TEST(Declarations, of_one_float_too_little_are_found_with_every_operation) {
  const auto known = rows();
  for (const std::string_view operation : operations()) {
    ASSERT_TRUE(known.contains(operation)) << "no row of the parity table runs " << operation;
    const parity::Case& row = *known.at(operation);
    SCOPED_TRACE(std::string(operation) + " in " + row.name);
    for (const bool writes : {false, true})
      for (const bool before : {false, true})
        EXPECT_GE(count_found(row, {operation, 0, writes, before}), 1u);
  }
}

}  // namespace
}  // namespace gpunode::hostile
