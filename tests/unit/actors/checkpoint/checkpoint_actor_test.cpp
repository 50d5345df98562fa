// The thread that writes a job's checkpoints lives no longer than the job.
#include "actors/checkpoint/checkpoint_actor.hpp"

#include <gtest/gtest.h>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/messages.hpp"
#include "runtime/storage/posix_file_system.hpp"

namespace gpunode::checkpoint {
namespace {

TEST(CheckpointActor, ends_when_its_job_breaks) {
  storage::PosixFileSystem files;
  SystemClock clock;
  caf::actor_system_config config;
  caf::actor_system system(config);
  caf::scoped_actor me(system);
  caf::actor job = system.spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](const Tick&) { throw std::bad_alloc(); }};
  });
  CheckpointOptions options;
  options.files = &files;
  options.root = "/nowhere";
  options.clock = &clock;
  caf::actor writer = spawn_checkpoints(system, job, options);
  me->monitor(writer);
  caf::anon_send(job, Tick{});
  bool late = false;
  me->receive([](const caf::down_msg&) {}, caf::after(std::chrono::seconds(60)) >>
                                               [&] {
                                                 late = true;
                                                 caf::anon_send(writer, Shutdown{});
                                               });
  EXPECT_FALSE(late) << "the writer outlived its job";
}

}  // namespace
}  // namespace gpunode::checkpoint
