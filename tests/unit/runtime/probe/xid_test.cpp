#include "runtime/probe/xid.hpp"

#include <gtest/gtest.h>

#include <set>

namespace gpunode::probe {
namespace {

std::set<unsigned> known(bool condemning) {
  std::set<unsigned> numbers;
  for (unsigned number = 0; number < 1000; ++number)
    if (const auto meaning = meaning_of_xid(number); meaning && meaning->condemns == condemning)
      numbers.insert(number);
  return numbers;
}

TEST(Xid, CondemnsADeviceForWhatNvidiaAnswersWithAResetOrARestart) {
  EXPECT_EQ(known(true), (std::set<unsigned>{46, 48, 62, 64, 74, 79, 95, 109, 119, 120, 136, 140,
                                             143, 156, 158}));
}

TEST(Xid, CondemnsNoneForErrorsOfProgramsAndOnesThatWereMended) {
  EXPECT_EQ(known(false), (std::set<unsigned>{13, 31, 32, 43, 45, 63, 69, 92, 94}));
}

TEST(Xid, NamesNumberMeaningAndWhatToTry) {
  const auto fallen = meaning_of_xid(79);
  ASSERT_TRUE(fallen);
  EXPECT_NE(fallen->text.find("Xid 79, it has fallen off the bus: restart the machine"),
            std::string::npos)
      << fallen->text;
}

TEST(Xid, OfAnUnknownNumberIsNothing) {
  EXPECT_FALSE(meaning_of_xid(999));  // by which NVML means one that it does not know
}

}  // namespace
}  // namespace gpunode::probe
