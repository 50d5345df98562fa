// A killed process is seen at once.
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

#include "tests/unit/runtime/transport/mesh_link_fixture.hpp"

extern char** environ;

namespace gpunode::transport::test {
namespace {

// A child process, so that it can be killed.

std::string hex(const CurveKey& key) {
  return to_hex(key);
}
CurveKey key_from(const std::string& text) {
  CurveKey key{};
  std::ranges::copy(from_hex(text), key.begin());
  return key;
}

constexpr const char* kChildVariable = "GPUNODE_LINK_TEST_CHILD";

// What the child runs in place of the tests. Node 2 admits node 1, says where it listens, and waits
// for its end.
bool run_as_child() {
  const char* text = std::getenv(kChildVariable);
  if (!text) return false;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::istringstream in(text);
  std::string parent_key, public_key, secret_key;
  int pipe = -1;
  in >> parent_key >> public_key >> secret_key >> pipe;
  MeshLinkOptions options;
  options.node = node_id(2);
  options.boot = 1;
  options.curve_public_key = key_from(public_key);
  options.curve_secret_key = key_from(secret_key);
  options.control_listen = options.bulk_listen = {"tcp://127.0.0.1:0"};
  options.admit = [&](const CurveKey& key) {
    bool known = hex(key) == parent_key;
    return KeyVerdict{known ? KeyVerdict::Answer::accepted : KeyVerdict::Answer::revoked,
                      node_id(1)};
  };
  auto link = MeshLink::open(options, {});
  if (!link) ::_exit(1);
  PeerAddress parent;
  parent.node = node_id(1);
  parent.curve_public_key = key_from(parent_key);
  (*link)->set_peer(parent);
  std::string line = (*link)->control_endpoints()[0] + " " + (*link)->bulk_endpoints()[0] + "\n";
  if (::write(pipe, line.data(), line.size()) < 0) ::_exit(1);
  for (;;) ::pause();
}

[[maybe_unused]] const bool child = run_as_child();

TEST_F(MeshLinkTest, AKilledProcessIsResetAndThenRefusedAtOnce) {
  KeyPair keys = KeyPair::create();
  auto one = start(1);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  std::string variable = std::string(kChildVariable) + "=" + hex(net_.address(1).curve_public_key) +
                         " " + hex(keys.open) + " " + hex(keys.secret) + " " +
                         std::to_string(pipe[1]);
  std::vector<char*> environment;
  for (char** each = environ; *each; ++each) environment.push_back(*each);
  environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe";
  char* arguments[] = {program.data(), nullptr};
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environment.data()),
            0);
  ::close(pipe[1]);
  std::string line;
  char byte;
  while (::read(pipe[0], &byte, 1) == 1 && byte != '\n') line.push_back(byte);
  ::close(pipe[0]);
  auto space = line.find(' ');
  ASSERT_NE(space, std::string::npos);
  one->link->set_peer(
      {node_id(2), 1, {line.substr(0, space)}, {line.substr(space + 1)}, keys.open});
  EXPECT_TRUE(send_when_up(*one->link, one->journal, node_id(2), Lane::bulk, text_message(1, "x")));
  EXPECT_TRUE(one->journal.wait_state(node_id(2), Lane::bulk, LinkState::up));

  SystemClock clock;
  Time killed = clock.now();
  ::kill(pid, SIGKILL);
  EXPECT_TRUE(one->journal.wait_state(node_id(2), Lane::control, LinkState::reset));
  auto reset = std::chrono::duration_cast<std::chrono::microseconds>(clock.now() - killed);
  EXPECT_TRUE(one->journal.wait_state(node_id(2), Lane::bulk, LinkState::reset));
  EXPECT_TRUE(one->journal.wait_state(node_id(2), Lane::control, LinkState::refused));
  auto refused = std::chrono::duration_cast<std::chrono::microseconds>(clock.now() - killed);
  ::waitpid(pid, nullptr, 0);
  RecordProperty("reset_us", static_cast<int>(reset.count()));
  RecordProperty("refused_us", static_cast<int>(refused.count()));
  EXPECT_LT(reset, std::chrono::seconds(5));
}

}  // namespace
}  // namespace gpunode::transport::test
