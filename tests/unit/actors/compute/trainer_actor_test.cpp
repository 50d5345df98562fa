#include "actors/compute/trainer_actor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.hpp"

namespace gpunode::compute {
namespace {

using job::ExchangeMode;
using testing::HasSubstr;

TEST(DevicesNote, names_what_several_devices_do_not_do) {
  const auto backend = cpu::open_backend();
  NodeDevice one{"cuda:0", *backend}, two{"cuda:2", *backend}, three{"cuda:3", *backend};
  EXPECT_EQ(devices_note(ExchangeMode::local, {&one}, false), "");
  EXPECT_EQ(devices_note(ExchangeMode::exact, {&one}, true), "");
  const std::string local = devices_note(ExchangeMode::local, {&one, &two, &three}, false);
  EXPECT_THAT(local, HasSubstr("on one device, cuda:0"));
  EXPECT_THAT(local, HasSubstr("cuda:2, cuda:3 has no part"));
  EXPECT_THAT(devices_note(ExchangeMode::exact, {&one, &two}, true), HasSubstr("with 2 devices"));
  EXPECT_EQ(devices_note(ExchangeMode::exact, {&one, &two}, false), "")
      << "a single one would not do it either";
}

}  // namespace
}  // namespace gpunode::compute
