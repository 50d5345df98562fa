#include "runtime/island/island.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/island/detail/rank_process.hpp"

namespace gpunode::island {
namespace {

using collective::IslandNews;

constexpr std::size_t kPiece = std::size_t{1} << 20;  // elements added at a time

struct Order {
  enum class Kind : std::uint8_t { start, name, join, sum, end, quit };
  Kind kind = Kind::quit;
  std::uint64_t formation = 0;
  std::uint64_t order = 0;
  bool one_host = false;
  Bytes name = {};
  Place place = {};
  collective::IslandSum sum = {};
};

// Makes what is under way void.
bool interrupts(const Order& order) {
  return order.kind == Order::Kind::start || order.kind == Order::Kind::end ||
         order.kind == Order::Kind::quit;
}

std::string seconds_text(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", std::chrono::duration<double>(time).count());
  return text;
}

std::uint64_t sum_speed(bool one_host) {
  return one_host ? kSumBytesPerSecondOnOneHost : kSumBytesPerSecond;
}

// How long an answer may take, and what made it so much.
struct Limit {
  Duration time{};
  std::string because = {};
};

}  // namespace

Duration sum_time(const Patience& patience, std::uint64_t bytes, bool one_host) {
  return patience.sum + std::chrono::nanoseconds(bytes * (1'000'000'000 / sum_speed(one_host)));
}

struct Island::State {
  explicit State(Options chosen) : options(std::move(chosen)), wake(eventfd(0, EFD_CLOEXEC)) {
    GPUNODE_CHECK(wake >= 0, "no descriptor for an event");
  }
  ~State() { close(wake); }

  enum class Wait : std::uint8_t { answered, failed, interrupted };

  void push(Order order) {
    {
      std::lock_guard lock(mutex);
      orders.push_back(std::move(order));
    }
    const std::uint64_t one = 1;
    (void)!write(wake, &one, sizeof one);
  }
  void run();
  void carry_out(Order& order);
  void open();
  void make_sum(Order& order);
  std::optional<Order> next();
  bool is_interrupted();
  Wait ask(const RankOrder& order, const Limit& limit, const char* what, RankAnswer& answer);
  Wait await(const Limit& limit, const char* what, RankAnswer& answer);
  Limit sum_limit(std::uint64_t bytes) const;
  std::string how_it_ended();
  void end_process();
  void lose(std::string reason);
  void tell(IslandNews news) {
    news.formation = formation;
    std::lock_guard lock(calling);
    if (options.tell) options.tell(std::move(news));
  }
  bool add_up(std::span<float> vector, const collective::IslandSum& sum);

  Options options;
  std::mutex calling;  // held in `add` and `tell`, which end with the owner
  const int wake;
  std::mutex mutex;
  std::deque<Order> orders;
  // The end of the owner ends the process at once, whatever the thread is at, and no other begins.
  std::mutex life;
  pid_t running = -1;
  bool over = false;
  // Of the thread alone:
  std::uint64_t formation = 0;
  bool one_host = false;
  std::unique_ptr<RankProcess> process;
};

Island::Island(Options options) : state_(std::make_shared<State>(std::move(options))) {
  std::thread([state = state_] { state->run(); }).detach();
}

Island::~Island() {
  {
    std::lock_guard lock(state_->life);
    state_->over = true;
    if (state_->running > 0) kill(state_->running, SIGKILL);
  }
  state_->push({.kind = Order::Kind::quit});
  std::lock_guard lock(state_->calling);
  state_->options.add = nullptr;
  state_->options.tell = nullptr;
}

void Island::start(std::uint64_t formation) {
  state_->push({.kind = Order::Kind::start, .formation = formation});
}
void Island::make_name(bool one_host) {
  state_->push({.kind = Order::Kind::name, .one_host = one_host});
}
void Island::join(Bytes name, const Place& place) {
  state_->push({.kind = Order::Kind::join, .name = std::move(name), .place = place});
}
void Island::sum(std::uint64_t order, collective::IslandSum sum) {
  state_->push({.kind = Order::Kind::sum, .order = order, .sum = std::move(sum)});
}
void Island::end() {
  state_->push({.kind = Order::Kind::end});
}

std::optional<Order> Island::State::next() {
  std::lock_guard lock(mutex);
  if (orders.empty()) return {};
  Order order = std::move(orders.front());
  orders.pop_front();
  return order;
}

bool Island::State::is_interrupted() {
  std::lock_guard lock(mutex);
  return std::any_of(orders.begin(), orders.end(), interrupts);
}

void Island::State::run() {
  for (;;) {
    if (auto order = next()) {
      if (order->kind == Order::Kind::quit) return end_process();
      carry_out(*order);
      continue;
    }
    pollfd events[2] = {{wake, POLLIN, 0}, {process ? process->control() : -1, POLLIN, 0}};
    if (poll(events, 2, -1) < 0) continue;
    std::uint64_t count = 0;
    if (events[0].revents) (void)!read(wake, &count, sizeof count);
    // It was asked for nothing: it has ended.
    if (events[1].revents) {
      const std::string how = how_it_ended();
      lose("its GPU process died" + (how.empty() ? "" : " (" + how + ")"));
    }
  }
}

void Island::State::carry_out(Order& order) {
  RankAnswer answer;
  switch (order.kind) {
    case Order::Kind::start:
      formation = order.formation;
      return open();
    case Order::Kind::end:
      return end_process();
    case Order::Kind::name: {
      RankOrder ask_name{.kind = RankOrder::Kind::name, .one_host = order.one_host};
      if (ask(ask_name, {options.patience.name}, "naming the meeting", answer) != Wait::answered)
        return;
      const auto* bytes = reinterpret_cast<const std::byte*>(answer.name);
      return tell({.kind = IslandNews::Kind::named, .name = Bytes(bytes, bytes + kNameBytes)});
    }
    case Order::Kind::join: {
      RankOrder ask_join{.kind = RankOrder::Kind::join,
                         .rank = order.place.rank,
                         .member_count = order.place.member_count,
                         .place_on_host = order.place.place_on_host,
                         .one_host = order.place.one_host};
      if (order.name.size() != kNameBytes) return lose("the meeting has no good name");
      std::memcpy(ask_join.name, order.name.data(), kNameBytes);
      one_host = order.place.one_host;
      if (ask(ask_join, {options.patience.join}, "the GPUs' meeting", answer) == Wait::answered)
        tell({.kind = IslandNews::Kind::joined});
      return;
    }
    case Order::Kind::sum:
      return make_sum(order);
    case Order::Kind::quit:
      return;
  }
}

void Island::State::open() {
  end_process();
  if (options.program.command.empty())
    return lose("this program cannot start the process that NCCL runs in");
  std::unique_lock lock(life);
  if (over) return;
  auto started = RankProcess::start(options.program.command, options.element_count);
  if (started) {
    process = std::move(*started);
    running = process->id();
  }
  lock.unlock();
  if (!started) return lose(started.error().detail);
  RankOrder order{.kind = RankOrder::Kind::open, .element_count = options.element_count};
  put_text(order.nccl, options.program.nccl);
  put_text(order.driver, options.program.driver);
  RankAnswer answer;
  if (ask(order, {options.patience.open}, "opening the GPU", answer) == Wait::answered)
    tell({.kind = IslandNews::Kind::able});
}

// The member's own part, piece by piece, as the owner may end meanwhile: false then.
bool Island::State::add_up(std::span<float> vector, const collective::IslandSum& sum) {
  if (sum.parts.empty()) std::ranges::fill(vector, 0.0f);
  for (std::size_t first = 0; !sum.parts.empty() && first < vector.size(); first += kPiece) {
    std::vector<const float*> parts;
    for (const collective::SharedFloats& part : sum.parts) parts.push_back(part->data() + first);
    std::lock_guard lock(calling);
    if (!options.add) return false;
    options.add(vector.data() + first, parts, std::min(kPiece, vector.size() - first));
  }
  return true;
}

void Island::State::make_sum(Order& order) {
  if (!process) return;
  const std::span<float> vector = process->vector();
  if (!add_up(vector, order.sum)) return;
  RankAnswer answer;
  if (ask({.kind = RankOrder::Kind::sum}, sum_limit(vector.size_bytes()), "the sum", answer) !=
      Wait::answered)
    return;
  std::ranges::copy(vector, order.sum.result->begin());
  tell({.kind = IslandNews::Kind::summed, .order = order.order});
}

Limit Island::State::sum_limit(std::uint64_t bytes) const {
  const Duration time = sum_time(options.patience, bytes, one_host);
  char text[96];
  std::snprintf(text, sizeof text, ", that is %s and %.4g MB at %.4g MB/s",
                seconds_text(options.patience.sum).c_str(), 1e-6 * static_cast<double>(bytes),
                1e-6 * static_cast<double>(sum_speed(one_host)));
  return {time, text};
}

Island::State::Wait Island::State::ask(const RankOrder& order, const Limit& limit, const char* what,
                                       RankAnswer& answer) {
  if (!process) return Wait::failed;  // that was told
  (void)process->send(order);         // if it has ended, there will be no answer
  const Wait result = await(limit, what, answer);
  if (result != Wait::answered) return result;
  if (!answer.failed) return result;
  lose(text_at(answer.reason));
  return Wait::failed;
}

Island::State::Wait Island::State::await(const Limit& limit, const char* what, RankAnswer& answer) {
  using Steady = std::chrono::steady_clock;
  const auto deadline = Steady::now() + limit.time;
  for (;;) {
    if (is_interrupted()) return Wait::interrupted;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Steady::now()).count();
    if (left <= 0) {
      lose(std::string(what) + " hung: it took longer than " + seconds_text(limit.time) +
           limit.because + ", so its GPU process was killed");
      return Wait::failed;
    }
    pollfd events[2] = {{wake, POLLIN, 0}, {process->control(), POLLIN, 0}};
    if (poll(events, 2, static_cast<int>(std::min<std::int64_t>(left, 60'000))) < 0) continue;
    std::uint64_t count = 0;
    if (events[0].revents) (void)!read(wake, &count, sizeof count);
    if (!events[1].revents) continue;
    if (process->receive(answer)) return Wait::answered;
    const std::string how = how_it_ended();
    lose(std::string(what) + " failed: the GPU process died" +
         (how.empty() ? "" : " (" + how + ")"));
    return Wait::failed;
  }
}

// Its number may be another's from here on.
std::string Island::State::how_it_ended() {
  {
    std::lock_guard lock(life);
    running = -1;
  }
  return process->how_it_ended();
}

void Island::State::end_process() {
  {
    std::lock_guard lock(life);
    if (running > 0) kill(running, SIGKILL);
    running = -1;
  }
  process.reset();
}

void Island::State::lose(std::string reason) {
  end_process();
  tell({.kind = IslandNews::Kind::lost, .reason = std::move(reason)});
}

Digest host_digest() {
  std::string text;
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    char line[64] = {};
    if (std::fgets(line, sizeof line, file)) text = line;
    std::fclose(file);
  }
  struct stat network = {};
  if (stat("/proc/self/ns/net", &network) == 0) text += std::to_string(network.st_ino);
  return digest_of(as_bytes(text));
}

}  // namespace gpunode::island
