#include "actors/compute/trainer_actor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.hpp"

namespace gpunode::compute {
namespace {

using ::testing::HasSubstr;

TEST(DevicesNote, names_what_several_devices_do_not_do) {
  const auto backend = cpu::open_backend();
  NodeDevice one{"cuda:0", *backend}, two{"cuda:2", *backend};
  EXPECT_EQ(devices_note({&one}, true), "");
  EXPECT_THAT(devices_note({&one, &two}, true), HasSubstr("with 2 devices"));
  EXPECT_EQ(devices_note({&one, &two}, false), "") << "a single one would not do it either";
}

}  // namespace
}  // namespace gpunode::compute
