// What a node brings to a job is looked at again when the job begins on it.
#include "actors/job/job_environment.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>

#include "kernels/model/registry.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::jobs {
namespace {

class Environment : public ::testing::Test {
 protected:
  Environment() {
    write(std::string(10'000, 'a'));
    options_.files = &files_;
    options_.clock = &clock_;
    options_.state = folder_.path();
    spec_.data.path = path().string();
    spec_.model_settings = {{"layers", "1"}, {"channels", "32"}, {"context", "16"}};
    const dataset::TextSource source = *dataset::TextSource::open(files_, path());
    const storage::Sha256 digest = source.data_digest();
    spec_.data_digest.assign(digest.value.begin(), digest.value.end());
    spec_.data_bytes = 10'000;
    spec_.sample_count =
        JobEnvironment(options_).trainer_options(spec_)->reader->data().sample_count();
  }

  storage::Path path() const { return folder_.path() / "text.txt"; }
  void write(const std::string& text) { std::ofstream(path(), std::ios::trunc) << text; }

  // What the trainer finds of the data as it lies there now.
  Result<void> look() {
    auto parts = JobEnvironment(options_).trainer_options(spec_);
    if (!parts) return parts.error();
    return parts->check_data();
  }
  void expect_differs(const std::string& words) {
    const Result<void> same = look();
    ASSERT_FALSE(same);
    EXPECT_EQ(same.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(same.error().detail.find(words), std::string::npos) << same.error().detail;
  }

  gpunode::testing::TemporaryFolder folder_;
  storage::PosixFileSystem files_;
  SystemClock clock_;
  JobEnvironment::Options options_;
  job::JobSpec spec_;
};

TEST_F(Environment, TakesTheDataWithWhichTheJobBegan) {
  const Result<void> same = look();
  EXPECT_TRUE(same) << same.error().message();
  spec_.data_digest.clear();  // of a job that has not been handed out
  write("another text, which is long enough for a window or two");
  EXPECT_TRUE(look());
}

TEST_F(Environment, NamesDataThatHasBecomeAnother) {
  write(std::string(10'000, 'b'));
  expect_differs("differs from that of the others (sha256 ");
  write(std::string(9'000, 'a'));
  expect_differs("9000 bytes; the others sha256");
  write(std::string(10'000, 'a'));
  ++spec_.sample_count;
  expect_differs("samples in its data");
}

TEST_F(Environment, TellsWhatTheModelThrows) {
  const auto factory = [](const model::Settings&) -> Result<std::unique_ptr<model::Model>> {
    throw std::runtime_error("my settings are wrong");
  };
  ASSERT_TRUE(model::register_model("environment-test", factory));
  spec_.model_kind = "environment-test";
  const JobEnvironment environment(options_);
  const auto fitness = environment.fitness(spec_);
  ASSERT_FALSE(fitness);
  EXPECT_NE(fitness.error().detail.find("my settings are wrong"), std::string::npos);
  EXPECT_FALSE(environment.prove(spec_, 1));
}

}  // namespace
}  // namespace gpunode::jobs
