#include "actors/job/job_names.hpp"

#include <gtest/gtest.h>

namespace gpunode::jobs {
namespace {

JobId id(std::uint64_t high) {
  return {high << 56, 1};
}
NamedJob job(std::uint64_t high, const char* name, std::int64_t submitted, bool at_work = false) {
  return {id(high), name, submitted, "", at_work};
}

struct TheNames : ::testing::Test {
  JobNames names;
  JobId meant(const std::string& wanted, Purpose purpose = Purpose::look) const {
    const auto found = names.meant(wanted, purpose);
    return found ? found->id : JobId{};
  }
  std::string why_not(const std::string& wanted, Purpose purpose = Purpose::look) const {
    const auto found = names.meant(wanted, purpose);
    return found ? "" : found.error().detail;
  }
};

TEST_F(TheNames, mean_the_job_submitted_last_and_the_rest_by_name_and_id) {
  names.add(job(0xa1, "dup", 5));
  names.add(job(0xa2, "dup", 7));
  names.add(job(0xb0, "other", 9));
  EXPECT_EQ(meant("dup"), id(0xa2));
  EXPECT_EQ(names.shown(id(0xa2)), "dup");
  EXPECT_EQ(names.shown(id(0xa1)), "dup~a1000000");
  EXPECT_EQ(meant("dup~a1000000"), id(0xa1));
  EXPECT_EQ(meant("dup~a1"), id(0xa1));
  EXPECT_EQ(meant("other~a1"), JobId{});
}

TEST_F(TheNames, do_not_depend_on_who_was_heard_first_even_at_one_moment) {
  names.add(job(0xa1, "dup", 5));
  names.add(job(0xa2, "dup", 5));
  JobNames other;
  other.add(job(0xa2, "dup", 5));
  other.add(job(0xa1, "dup", 5));
  EXPECT_EQ(meant("dup"), other.meant("dup", Purpose::look)->id);
}

TEST_F(TheNames, take_any_beginning_of_an_id_that_fits_one_job) {
  names.add(job(0xa1, "x", 5));
  names.add(job(0xa2, "y", 5));
  names.add(job(0xb0, "z", 5));
  EXPECT_EQ(meant("b"), id(0xb0));
  EXPECT_EQ(meant("a2"), id(0xa2));
  EXPECT_EQ(meant(id(0xa1).text()), id(0xa1));
  EXPECT_NE(why_not("a").find("fits several jobs: x~a1000000, y~a2000000"), std::string::npos);
  EXPECT_NE(why_not("c").find("no job 'c' is known"), std::string::npos);
  EXPECT_FALSE(names.meant("", Purpose::look));
  EXPECT_FALSE(names.meant("~", Purpose::look));
}

TEST_F(TheNames, come_before_ids) {
  names.add(job(0xab, "x", 5));
  names.add(job(0xcd, "ab", 5));
  EXPECT_EQ(meant("ab"), id(0xcd));
  EXPECT_EQ(meant("~ab"), JobId{}) << "no job is called nothing";
}

TEST_F(TheNames, are_refused_by_what_removes_where_several_bear_them) {
  names.add(job(0xa1, "dup", 5));
  EXPECT_EQ(meant("dup", Purpose::remove), id(0xa1));
  names.add(job(0xa2, "dup", 7));
  EXPECT_EQ(meant("dup", Purpose::remove), JobId{});
  EXPECT_EQ(meant("dup~a1", Purpose::remove), id(0xa1));
  EXPECT_EQ(meant("dup", Purpose::order), id(0xa2)) << "at most one is at work";
}

TEST_F(TheNames, are_refused_by_orders_where_several_are_at_work) {
  names.add(job(0xa1, "dup", 5, true));
  names.add(job(0xa2, "dup", 7, true));
  EXPECT_NE(why_not("dup", Purpose::order).find("fits several"), std::string::npos);
  EXPECT_EQ(meant("dup"), id(0xa2));
}

TEST_F(TheNames, keep_what_any_node_knows_of_a_job) {
  names.add(job(0xa1, "dup", 0));
  names.add(job(0xa1, "dup", 6, true));
  names.add(job(0xa2, "dup", 5));
  EXPECT_EQ(meant("dup"), id(0xa1));
  EXPECT_TRUE(names.meant("dup", Purpose::look)->at_work);
  names.forget(id(0xa1));
  EXPECT_EQ(meant("dup"), id(0xa2));
}

TEST_F(TheNames, know_a_job_by_the_id_that_it_had_in_the_queue) {
  NamedJob one = job(0xa1, "x", 5);
  one.waited_as = id(0xd4).text();
  names.add(one);
  names.add(job(0xd4, "x", 5, true));
  names.forget_started({id(0xd4)});
  EXPECT_TRUE(names.knows(id(0xd4))) << "anybody can say that it is what another one was";
  names.forget_started();
  EXPECT_EQ(meant("d4"), id(0xa1));
  EXPECT_EQ(names.shown(id(0xa1)), "x");
  EXPECT_FALSE(names.knows(id(0xd4)));
}

TEST(JobIdText, is_read_back_and_nothing_else_is) {
  EXPECT_EQ(parse_job_id(id(0xa1).text()), id(0xa1));
  EXPECT_FALSE(parse_job_id("a1"));
  EXPECT_FALSE(parse_job_id(std::string(32, 'g')));
}

}  // namespace
}  // namespace gpunode::jobs
