// gpunode-hostile: a member that says what it likes, for tests against real nodes. Never installed.
//   gpunode-hostile --state DIR --attack NAME[,NAME...]|all|burn|spin|probe --seconds N [--cpu SHARE]
//                   [--corpus DIR] [--token-file FILE] [--job ID]... [--seed N]
//                   [--victim NODE] [--manifest FILE] [--say FILE]
// burn: takes as much of the processor and harms nobody, by arithmetic, messages and connections to
// itself; spin: by arithmetic alone. probe: is honest, and times calls. tell: see
// false_teller.hpp. The state directory is one that `gpunode join` has filled and whose node has ended.
// Prints one line of JSON.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "actors/node/call_codec.hpp"
#include "tests/hostile/attacks.hpp"
#include "tests/hostile/false_teller.hpp"

namespace gpunode::hostile {

std::unique_ptr<Attack> make_attack(std::string_view name, const AttackOptions& options) {
  if (name == "garbage") return make_garbage(options);
  if (name == "forged") return make_forged(options);
  if (name == "replay") return make_replay(options);
  if (name == "calls") return make_calls(options);
  if (name == "slow") return make_slow(options);
  if (name == "frames") return make_frames(options);
  if (name == "flood") return make_flood(options);
  if (name == "churn") return make_churn(options);
  return make_kind(name, options);
}

const std::vector<std::string>& attack_names() {
  static const std::vector<std::string> names{"garbage", "forged", "replay", "calls",
                                              "frames",  "flood",  "churn",  "slow"};
  return names;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTurn = std::chrono::milliseconds(100);
constexpr double kJoinsPerSecond = 17;  // five thousand in five minutes

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// Keeps the whole process, its link's threads too, below a share of one core.
class Throttle {
 public:
  explicit Throttle(double share) : share_(share) {}
  void pause() const {
    while (processor_seconds() - before_ > share_ * seconds_since(begin_) + 0.01)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

 private:
  const double share_;
  const Clock::time_point begin_ = Clock::now();
  const double before_ = processor_seconds();
};

struct Flags {
  std::string state, attack = "all", corpus, say;
  double seconds = 10, cpu = 0.25;
  AttackOptions options;
};

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "gpunode-hostile: %s\n", text.c_str());
  std::exit(2);
}

Flags read_flags(int argc, char** argv) {
  Flags flags;
  for (int at = 1; at + 1 < argc; at += 2) {
    const std::string flag = argv[at], value = argv[at + 1];
    if (flag == "--state")
      flags.state = value;
    else if (flag == "--attack")
      flags.attack = value;
    else if (flag == "--seconds")
      flags.seconds = std::atof(value.c_str());
    else if (flag == "--cpu")
      flags.cpu = std::atof(value.c_str());
    else if (flag == "--corpus")
      flags.options.corpus = value;
    else if (flag == "--seed")
      flags.options.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (flag == "--job")
      flags.options.jobs.push_back(value);
    else if (flag == "--say")
      flags.say = value;
    else if (flag == "--manifest")
      flags.options.manifest = value;
    else if (flag == "--victim")
      flags.options.victim = NodeId::parse(value).value_or(NodeId{});
    else if (flag == "--token-file") {
      std::ifstream in(value);
      for (std::string line; std::getline(in, line);) flags.options.tokens.push_back(line);
    } else
      fail("unknown flag " + flag);
  }
  if (argc % 2 == 0 || flags.state.empty()) fail("see the top of hostile_main.cpp");
  return flags;
}

std::vector<std::string> chosen(const std::string& names) {
  if (names == "all") return attack_names();
  std::vector<std::string> all;
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    all.push_back(names.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

int burn(const Flags& flags, const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<Attack>> turns;
  for (const std::string& name : names) turns.push_back(make_harmless(name));
  const Throttle throttle(flags.cpu);
  const auto begin = Clock::now();
  for (std::size_t turn = 0; seconds_since(begin) < flags.seconds; ++turn)
    for (const auto until = Clock::now() + kTurn; Clock::now() < until; throttle.pause())
      turns[turn % turns.size()]->step();
  std::printf("{\"burnt\": %.2f}\n", processor_seconds());
  return 0;
}

// Calls each peer in turn, a hundred times a second, and times the answers; late ones count for the
// time at which they were given up.
int probe(const Flags& flags, Member& member) {
  struct Waiting {
    std::mutex mutex;
    std::map<std::uint64_t, Clock::time_point> asked;
    std::vector<double> took;
  } waiting;
  member.on_reply = [&](const transport::Message& reply) {
    std::lock_guard lock(waiting.mutex);
    const auto found = waiting.asked.find(reply.stream);
    if (found == waiting.asked.end()) return;
    waiting.took.push_back(seconds_since(found->second));
    waiting.asked.erase(found);
  };
  const auto begin = Clock::now();
  std::uint64_t call = 1;
  const std::string job = flags.options.jobs.empty() ? "" : flags.options.jobs.front();
  while (seconds_since(begin) < flags.seconds) {
    const Peer& peer = member.peers()[call % member.peers().size()];
    {
      std::lock_guard lock(waiting.mutex);
      waiting.asked[call] = Clock::now();
    }
    const Bytes header = encode(node::CallHeader{"job.clock", 2000});
    if (!member.send(peer.record.id, transport::Lane::control,
                     {transport::Topic::call, call, header, {}})) {
      std::lock_guard lock(waiting.mutex);
      waiting.asked.erase(call);  // no session yet
    }
    ++call;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::seconds(2));
  std::lock_guard lock(waiting.mutex);
  const std::size_t lost = waiting.asked.size();
  for (const auto& [stream, at] : waiting.asked) waiting.took.push_back(seconds_since(at));
  std::sort(waiting.took.begin(), waiting.took.end());
  const auto at = [&](double share) {
    return waiting.took.empty() ? -1.0
                                : waiting.took[static_cast<std::size_t>(
                                      share * static_cast<double>(waiting.took.size() - 1))];
  };
  std::printf("{\"calls\": %zu, \"lost\": %zu, \"p50_ms\": %.3f, \"p99_ms\": %.3f}\n",
              waiting.took.size(), lost, at(0.5) * 1e3, at(0.99) * 1e3);
  return 0;
}

int attack(const Flags& flags, Member& member) {
  AttackOptions options = flags.options;
  options.member = &member;
  const std::vector<std::string> names = chosen(flags.attack);
  std::vector<std::unique_ptr<Attack>> attacks;
  for (const std::string& name : names) {
    attacks.push_back(make_attack(name, options));
    if (!attacks.back()) fail("no attack is named " + name);
  }
  struct Answers {
    std::atomic<std::uint64_t> ok{0}, full{0}, other{0};
  } answers;
  member.on_reply = [&](const transport::Message& message) {
    const auto header = node::decode_call(message.body);
    const auto* reply = header ? std::get_if<node::ReplyHeader>(&*header) : nullptr;
    if (!reply) return;
    const bool full = !reply->ok && reply->error.code == ErrorCode::resource_exhausted;
    ++(reply->ok ? answers.ok : full ? answers.full : answers.other);
  };
  const Throttle throttle(flags.cpu);
  const auto begin = Clock::now();
  const auto churn = static_cast<std::size_t>(std::ranges::find(names, "churn") - names.begin());
  // By turns, as long each; but so many identities join.
  for (std::size_t turn = 0; seconds_since(begin) < flags.seconds; ++turn) {
    while (churn < names.size() && seconds_since(begin) < flags.seconds &&
           static_cast<double>(attacks[churn]->done()) < kJoinsPerSecond * seconds_since(begin)) {
      attacks[churn]->step();
      throttle.pause();
    }
    const auto until = Clock::now() + kTurn;
    while (Clock::now() < until && seconds_since(begin) < flags.seconds) {
      attacks[turn % attacks.size()]->step();
      throttle.pause();
    }
  }
  std::string told;
  for (std::size_t at = 0; at < names.size(); ++at)
    told += "\"" + names[at] + "\": " + std::to_string(attacks[at]->done()) + ", ";
  for (const auto& [name, count] :
       {std::pair("ok", &answers.ok), {"full", &answers.full}, {"other", &answers.other}})
    told += std::string("\"") + name + "\": " + std::to_string(count->load()) + ", ";
  std::printf("{%s\"burnt\": %.2f}\n", told.c_str(), processor_seconds());
  return 0;
}

}  // namespace
}  // namespace gpunode::hostile

int main(int argc, char** argv) {
  using namespace gpunode::hostile;
  const Flags flags = read_flags(argc, argv);
  if (flags.attack == "spin") return burn(flags, {"arithmetic"});
  if (flags.attack == "burn") return burn(flags, {"arithmetic", "messages", "connections"});
  auto member = Member::open(flags.state);
  if (!member) fail(member.error().message());
  const int code = flags.attack == "probe"  ? probe(flags, **member)
                   : flags.attack == "tell" ? tell(**member, flags.say, flags.seconds)
                                            : attack(flags, **member);
  std::fflush(nullptr);
  std::_Exit(code);  // whoever does not read should not be waited for
}
