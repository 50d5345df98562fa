#include "actors/node/needed_rights.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace gpunode::node {
namespace {

TEST(NeededRights, each_row_lets_through_who_has_one_of_its_roles_and_nobody_else) {
  for (const NeededRights& row : needed_rights())
    for (security::Rights role = 1; role <= security::kAllRights; role <<= 1) {
      const Result<void> may = may_ask(row.kind, row.name, role);
      EXPECT_EQ(may.has_value(), row.any_of == 0 || (row.any_of & role) != 0)
          << row.name << " with " << security::to_text(role);
      if (!may) {
        EXPECT_EQ(may.error().code, ErrorCode::permission_denied);
      }
    }
}

TEST(NeededRights, who_was_put_out_may_ask_only_what_needs_nothing) {
  for (const NeededRights& row : needed_rights())
    EXPECT_EQ(may_ask(row.kind, row.name, 0).has_value(), row.any_of == 0) << row.name;
}

TEST(NeededRights, each_name_stands_there_once) {
  std::set<std::pair<Asked, std::string_view>> seen;
  for (const NeededRights& row : needed_rights())
    EXPECT_TRUE(seen.emplace(row.kind, row.name).second) << row.name;
}

TEST(NeededRights, services_need_the_right_to_call) {
  EXPECT_TRUE(may_ask(Asked::call, "translate", security::kRightCall));
  EXPECT_FALSE(may_ask(Asked::call, "translate", security::kAllRights & ~security::kRightCall));
}

TEST(NeededRights, what_begins_as_the_runtimes_names_and_is_not_in_the_table_is_nothing) {
  EXPECT_EQ(may_ask(Asked::call, "job.everything", security::kAllRights).error().code,
            ErrorCode::not_found);
  EXPECT_EQ(may_ask(Asked::command, "reboot", security::kAllRights).error().code,
            ErrorCode::not_found);
}

TEST(NeededRights, a_refusal_names_the_roles_and_what_the_asker_has) {
  const auto refused = may_ask(Asked::command, "job.stop", security::kRightsDefault);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("submit or operate"), std::string::npos);
  EXPECT_NE(refused.error().detail.find("compute, call"), std::string::npos);
}

}  // namespace
}  // namespace gpunode::node
