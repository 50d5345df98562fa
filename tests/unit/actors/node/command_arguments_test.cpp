#include "actors/node/command_arguments.hpp"

#include <gtest/gtest.h>

namespace gpunode::node {
namespace {

void expect_wrong(const std::string& command, const std::string& arguments,
                  const std::string& words) {
  const Result<void> good = check_arguments(command, arguments);
  ASSERT_FALSE(good) << command << " " << arguments;
  EXPECT_EQ(good.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(good.error().detail.find(words), std::string::npos) << good.error().detail;
}

TEST(CommandArguments, are_known_keys_with_values_of_their_kind) {
  EXPECT_TRUE(check_arguments("jobs", "{}"));
  EXPECT_TRUE(check_arguments("jobs", ""));
  EXPECT_TRUE(check_arguments("train", "{}")) << "whose job file is looked at for itself";
  EXPECT_TRUE(check_arguments("job.show", R"({"job":"small"})"));
  EXPECT_TRUE(check_arguments("job.resume", R"({"job":"small","from":0})"));
  EXPECT_TRUE(check_arguments("job.recover", R"({"job":"small","force":true,"anew":true})"));
  EXPECT_TRUE(check_arguments("generate", R"({"model":"m","temperature":1,"seed":7})"));
}

TEST(CommandArguments, that_cannot_be_meant_are_named) {
  expect_wrong("job.show", "not json", "no JSON object");
  expect_wrong("job.show", R"(["small"])", "no JSON object");
  expect_wrong("job.show", "{}", "'job' is missing");
  expect_wrong("job.show", R"({"job":7})", "'job' must be a text");
  expect_wrong("job.show", R"({"jop":"small"})", "did you mean 'job'");
  expect_wrong("job.resume", R"({"job":"small","from":-1})", "'from' must be a whole number");
  expect_wrong("job.resume", R"({"job":"small","from":"1"})", "'from' must be a whole number");
  expect_wrong("job.recover", R"({"job":"small","force":"yes"})", "true or false");
  expect_wrong("jobs", R"({"all":true})", "there are none");
  expect_wrong("job.shwo", "{}", "did you mean 'job.show'");
}

}  // namespace
}  // namespace gpunode::node
