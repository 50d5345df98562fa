// What ends a device group over NCCL, and what is told then; nothing of it is left behind.
#include "tests/unit/kernels/cuda/fake_group.hpp"

#include <sys/stat.h>

#include <csignal>
#include <thread>

#include "tests/support/temporary_folder.hpp"

namespace gpunode::cuda {
namespace {

using ops::DeviceGroup;
using ops::MovedSpan;
using ::testing::HasSubstr;
constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(60),
                                    kShort = std::chrono::milliseconds(200);

// Says when a carrier has come as far as carrying out a group of sends and receives.
class ReachedPipe {
 public:
  ReachedPipe() : path_((folder_.path() / "reached").string()) {
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    end_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    setting_ = std::make_unique<Setting>("FAKE_NCCL_REACHED", path_);
  }
  ~ReachedPipe() { close(end_); }
  void await() const {
    char byte;
    EXPECT_EQ(read(end_, &byte, 1), 1);
  }

 private:
  testing::TemporaryFolder folder_;
  std::string path_;
  int end_ = -1;
  std::unique_ptr<Setting> setting_;
};

class NcclGroupFaults : public NcclGroupTest {
 protected:
  // Two joined ranks, each with a region, and the processes of both.
  void join_two() {
    one = open();
    one_process = *children().begin();
    other = open();
    for (const pid_t process : children())
      if (process != one_process) other_process = process;
    const auto invite = one->invite();
    ASSERT_TRUE(invite) << invite.error().message();
    std::thread second([&] { EXPECT_TRUE(other->join(*invite, 1, 2, kPatience)); });
    EXPECT_TRUE(one->join(*invite, 0, 2, kPatience));
    second.join();
    ASSERT_TRUE(one->region(kBytes) && other->region(kBytes));
  }
  // One of the group, which `fail` makes fail.
  Error failing_move(const char* variable, const char* fail) {
    const Setting setting(variable, fail);
    auto group = open();
    const auto invite = group->invite();
    EXPECT_TRUE(invite && group->join(*invite, 0, 1, kPatience));
    EXPECT_TRUE(group->region(kBytes));
    const MovedSpan from{0, 0, 16}, to{0, 32, 16};
    const auto done = group->move(std::span(&from, 1), std::span(&to, 1), kPatience);
    EXPECT_FALSE(group->move({}, {}, kPatience));
    return done ? Error{ErrorCode::internal, "it did not fail"} : done.error();
  }

  static constexpr std::size_t kBytes = 4 << 20;
  std::unique_ptr<DeviceGroup> one, other;
  pid_t one_process = 0, other_process = 0;
  const MovedSpan from_other{1, 0, kBytes}, to_other{1, 0, kBytes}, to_one{0, 0, kBytes};
};

TEST_F(NcclGroupFaults, a_carrier_killed_in_a_move_breaks_its_group_and_its_peers_in_time) {
  const ReachedPipe reached;
  join_two();
  std::thread killer([&] {
    reached.await();
    EXPECT_EQ(kill(one_process, SIGKILL), 0);
  });
  const auto killed = one->move({}, std::span(&from_other, 1), kPatience);
  killer.join();
  ASSERT_FALSE(killed);
  EXPECT_EQ(killed.error().code, ErrorCode::unavailable);
  EXPECT_THAT(killed.error().detail, HasSubstr("signal 9"));
  EXPECT_EQ(children(), std::set<pid_t>{other_process});
  const auto late = other->move(std::span(&to_one, 1), {}, kShort);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::timeout);
  EXPECT_EQ(other->move({}, {}, kPatience).error().code, ErrorCode::unavailable);
  EXPECT_EQ(other->region(2 * kBytes).error().code, ErrorCode::unavailable);
  EXPECT_EQ(memory->held(), 2u);  // until the groups go
  one.reset(), other.reset();
  EXPECT_EQ(memory->children_at_release, 0u);
}

TEST_F(NcclGroupFaults, giving_up_wakes_a_move_and_its_reason_is_told) {
  const ReachedPipe reached;
  join_two();
  std::thread giver([&] {
    reached.await();
    one->give_up("rank 1 was lost");
    one->give_up("another reason");
  });
  const auto done = one->move(std::span(&to_other, 1), std::span(&from_other, 1), kPatience);
  giver.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::unavailable);
  EXPECT_EQ(done.error().detail, "rank 1 was lost");
  EXPECT_EQ(one->invite().error().detail, "rank 1 was lost");
  one.reset(), other.reset();
}

TEST_F(NcclGroupFaults, giving_up_wakes_a_join_that_nobody_else_comes_to) {
  auto group = open();
  const auto invite = group->invite();
  ASSERT_TRUE(invite);
  std::thread giver([&] { group->give_up("the view has changed"); });
  const auto done = group->join(*invite, 0, 2, kPatience);
  giver.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().detail, "the view has changed");
}

TEST_F(NcclGroupFaults, a_join_ends_by_its_timeout) {
  auto group = open();
  const auto invite = group->invite();
  ASSERT_TRUE(invite);
  EXPECT_EQ(group->join(*invite, 0, 2, kShort).error().code, ErrorCode::timeout);
}

TEST_F(NcclGroupFaults, a_stopped_carrier_is_ended_by_a_timeout) {
  join_two();
  ASSERT_EQ(kill(one_process, SIGSTOP), 0);
  EXPECT_EQ(one->move({}, {}, kShort).error().code, ErrorCode::timeout);
  one.reset(), other.reset();
}

TEST_F(NcclGroupFaults, what_a_library_reports_is_named) {
  for (const char* function : {"ncclGroupStart", "ncclGroupEnd", "ncclSend", "ncclRecv"}) {
    const Error error = failing_move("FAKE_NCCL_FAIL", (std::string(function) + "=6").c_str());
    EXPECT_EQ(error.code, ErrorCode::unavailable);
    EXPECT_THAT(error.detail, HasSubstr(std::string(function) + ": NCCL says remote process"));
  }
  EXPECT_THAT(failing_move("FAKE_NCCL_FAIL", "communicator=6").detail,
              HasSubstr("moving: NCCL says remote process"));
  EXPECT_THAT(failing_move("FAKE_DRIVER_FAIL", "cuStreamQuery").detail,
              HasSubstr("the driver says CUDA_ERROR_UNKNOWN"));
  const Setting setting("FAKE_NCCL_FAIL", "ncclCommInitRank=2");
  auto group = open();
  EXPECT_THAT(group->join(*group->invite(), 0, 1, kPatience).error().detail,
              HasSubstr("ncclCommInitRank: NCCL says unhandled system error (told by the fake)"));
}

TEST_F(NcclGroupFaults, memory_that_cannot_be_opened_is_an_error_and_given_back) {
  const Setting setting("FAKE_DRIVER_FAIL", "cuIpcOpenMemHandle");
  const auto region = open()->region(100);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, ErrorCode::unavailable);
  EXPECT_THAT(region.error().detail, HasSubstr("cuIpcOpenMemHandle"));
}

TEST_F(NcclGroupFaults, ranks_of_two_versions_are_told_so) {
  auto first = open();
  const auto invite = first->invite();
  const Setting setting("FAKE_NCCL_VERSION", "22602");
  const auto done = open()->join(*invite, 1, 2, kPatience);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().detail, HasSubstr("rank 0 has NCCL 2.28.9 and this machine 2.26.2"));
}

class NcclGroupMissing : public NcclGroupTest {
 protected:
  void expect_unsupported(const Result<std::unique_ptr<DeviceGroup>>& group, const char* told) {
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, ErrorCode::unsupported);
    EXPECT_THAT(group.error().detail, HasSubstr(told));
  }
};

TEST_F(NcclGroupMissing, a_program_that_is_not_there_is_named) {
  expect_unsupported(try_open(kFakeGpu, "/nowhere/gpunode-carrier"), "/nowhere/gpunode-carrier");
  const Setting setting("GPUNODE_CARRIER", "/nowhere/else");
  expect_unsupported(try_open(kFakeGpu, ""), "GPUNODE_CARRIER names /nowhere/else");
}

TEST_F(NcclGroupMissing, the_program_is_found_where_the_environment_says) {
  const Setting setting("GPUNODE_CARRIER", GPUNODE_CARRIER);
  const auto group = try_open(kFakeGpu, "");
  EXPECT_TRUE(group) << group.error().message();
}

TEST_F(NcclGroupMissing, a_program_that_is_another_one_is_an_error) {
  expect_unsupported(try_open(kFakeGpu, "/bin/true"), "ended with code 0");
}

TEST_F(NcclGroupMissing, libraries_that_are_not_there_or_too_old_are_named) {
  testing::TemporaryFolder folder;
  const Setting setting("GPUNODE_NCCL_FOLDER", folder.path().string());
  expect_unsupported(try_open(), "libnccl.so.2");
  std::filesystem::create_symlink(std::string(GPUNODE_FAKE_DEVICES) + "/libcuda.so.1",
                                  folder.path() / "libnccl.so.2");
  expect_unsupported(try_open(), "lacks ncclGetVersion");
}

TEST_F(NcclGroupMissing, a_gpu_or_a_driver_that_is_not_there_is_named) {
  expect_unsupported(try_open("0000:0b:00.0"), "the GPU at 0000:0b:00.0");
  const Setting setting("FAKE_DRIVER_FAIL", "cuInit");
  expect_unsupported(try_open(), "starting the driver");
}

// This process takes over the orphan, so that it sees it end.
TEST_F(NcclGroupMissing, a_node_that_is_killed_takes_the_carrier_along) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int told[2];
  ASSERT_EQ(pipe2(told, O_CLOEXEC), 0);
  const pid_t node = fork();
  if (node == 0) {
    const auto group = try_open();
    const pid_t carrier = group ? *children().begin() : 0;
    if (write(told[1], &carrier, sizeof carrier) != sizeof carrier) _exit(1);
    for (;;) pause();
  }
  pid_t carrier = 0;
  EXPECT_EQ(read(told[0], &carrier, sizeof carrier), static_cast<ssize_t>(sizeof carrier));
  EXPECT_GT(carrier, 0);
  EXPECT_EQ(kill(node, SIGKILL), 0);
  EXPECT_EQ(waitpid(node, nullptr, 0), node);
  EXPECT_EQ(waitpid(carrier, nullptr, 0), carrier);
  close(told[0]), close(told[1]);
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

}  // namespace
}  // namespace gpunode::cuda
