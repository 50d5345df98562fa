// What a node brings to a job is looked at again when the job begins on it.
#include "actors/job/job_environment.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/job/job_rights.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/security/identity.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::jobs {
namespace {

class Environment : public ::testing::Test {
 protected:
  Environment() {
    write(std::string(10'000, 'a'));
    options_.devices = &devices_;
    options_.files = &files_;
    options_.clock = &clock_;
    options_.state = folder_.path() / "state";
    std::filesystem::create_directory(options_.state);
    options_.data_sets = {{"text", {path()}}};
    spec_.data.set = "text";
    spec_.model_settings = {{"layers", "1"}, {"channels", "32"}, {"context", "16"}};
    const dataset::TextSource source =
        *dataset::TextSource::open(std::make_shared<storage::PosixFileSystem>(), path());
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
  compute::DeviceRoster devices_{cpu::open_backend()};
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

// A job's own path is read where it was submitted, and nowhere else is looked whether it is there.
TEST_F(Environment, ReadsAPathOfItsOwnJobsAlone) {
  const security::Identity self = security::Identity::create(),
                           other = security::Identity::create();
  const auto of = [](const security::Identity& who) {
    return security::Authority{
        who.id(), [](const NodeId&) { return security::Rights{0}; },
        [&who](std::string_view purpose, ByteView message) { return who.sign(purpose, message); },
        [&who](const NodeId& by, std::string_view purpose, ByteView message,
               const security::Signature& signature) {
          return by == who.id() && security::verify(who.sign_key(), purpose, message, signature);
        }};
  };
  const security::Authority own = of(self), others = of(other);
  options_.authority = &own;
  const JobEnvironment environment(options_);
  spec_.data.set.clear();
  spec_.data.path = path();
  sign_as_owner(own, spec_);
  const auto fit = environment.fitness(spec_);
  EXPECT_TRUE(fit) << fit.error().detail;

  const auto refusal = [&](job::JobSpec spec, const char* what) {
    const auto refused = environment.fitness(spec);
    EXPECT_FALSE(refused) << what;
    EXPECT_FALSE(environment.prove(spec, 1)) << what;
    return refused ? std::string() : refused.error().message();
  };
  job::JobSpec foreign = spec_;
  sign_as_owner(others, foreign);
  const std::string told = refusal(foreign, "another node's job");
  EXPECT_NE(told.find("data.set = \"NAME\""), std::string::npos) << told;
  EXPECT_EQ(told.find(path().string()), std::string::npos) << told;
  foreign.submitter = self.id();
  EXPECT_EQ(refusal(foreign, "another node's in this one's name"), told);
  foreign = spec_;
  foreign.data.path = folder_.path() / "none";
  EXPECT_EQ(refusal(foreign, "a path that is not there"), told) << "nobody has signed it";

  foreign = spec_;
  foreign.data = {.set = "text"};
  foreign.model_start = path();
  sign_as_owner(others, foreign);
  const std::string start = refusal(foreign, "weights at a path");
  EXPECT_NE(start.find("model.start_set"), std::string::npos) << start;
  foreign.model_start = folder_.path() / "none";
  sign_as_owner(others, foreign);
  EXPECT_EQ(refusal(foreign, "weights that are not there"), start);
  EXPECT_EQ(environment.make_model(foreign).error().code, ErrorCode::permission_denied);
  foreign.model_start.clear();
  foreign.data.validation_path = path();
  sign_as_owner(others, foreign);
  EXPECT_NE(refusal(foreign, "validation at a path").find("data.validation_set"),
            std::string::npos);
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

TEST_F(Environment, ASetThatIsGivenToValidateOnIsReadWholeAndIsPartOfTheData) {
  const storage::Path given = folder_.path() / "given.txt";
  std::ofstream(given) << std::string(16 * 50 + 1, 'v');
  options_.data_sets["given"] = {given};
  spec_.data.validation_set = "given";
  spec_.data_digest.clear();
  const auto reader = JobEnvironment(options_).trainer_options(spec_)->reader;
  EXPECT_EQ(reader->data().sample_count(), 10'000u - 16) << "nothing is held out of the other";
  EXPECT_EQ(reader->data().held_out_count(), 50u) << "each byte a target once";
  EXPECT_EQ(reader->data().size_bytes(), 10'000u + 801);
  const auto fit = JobEnvironment(options_).fitness(spec_);
  ASSERT_TRUE(fit) << fit.error().detail;
  std::ofstream(given, std::ios::trunc) << std::string(16 * 50 + 1, 'w');
  EXPECT_NE(JobEnvironment(options_).fitness(spec_)->data_digest, fit->data_digest);
  std::ofstream(given, std::ios::trunc) << "short";
  const auto refused = JobEnvironment(options_).fitness(spec_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("data.validation_set"), std::string::npos);
  EXPECT_TRUE(JobEnvironment(options_).prove(spec_, 1)) << "of what is trained on alone";
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
  EXPECT_FALSE(environment.make_model(spec_));
  EXPECT_FALSE(environment.trainer_options(spec_));
}

TEST_F(Environment, AJobThatIsTooLargeHereIsRefusedHoweverItComes) {
  spec_.model_settings = {{"layers", "100"}, {"heads", "1"}, {"channels", "65536"}};
  const JobEnvironment environment(options_);
  const auto fit = environment.fitness(spec_);
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().code, ErrorCode::invalid_argument) << fit.error().detail;
  const auto parts = environment.trainer_options(spec_);
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::invalid_argument) << parts.error().detail;
}

TEST_F(Environment, StartsFromTheWeightsOfAFile) {
  checkpoint::StoredModel start;
  start.model = std::move(*model::make_model(
      "gpt", {{"layers", "1"}, {"channels", "32"}, {"context", "16"}, {"vocabulary", "200"}}));
  start.weights.assign(start.model->parameter_count(), 0.25f);
  ASSERT_TRUE(checkpoint::save_model(files_, start, folder_.path() / "start"));
  options_.data_sets["start"] = {folder_.path() / "start"};
  spec_.model_start_set = "start";
  const JobEnvironment environment(options_);
  const auto made = environment.make_model(spec_);
  ASSERT_TRUE(made) << made.error().detail;
  EXPECT_EQ((*made)->vocabulary(), 200u);  // of which the job says nothing
  std::vector<float> weights((*made)->parameter_count());
  (*made)->initialise(1, weights);
  EXPECT_EQ(weights, start.weights);

  const auto refusal = [&](const char* key, const char* value) {
    job::JobSpec other = spec_;
    other.model_settings[key] = value;
    const auto refused = JobEnvironment(options_).make_model(other);
    return refused ? std::string() : refused.error().detail;
  };
  EXPECT_NE(refusal("layers", "2").find("has layers = 1, the job says 2"), std::string::npos);
  EXPECT_NE(refusal("context", "8").find("another position_table"), std::string::npos);
  spec_.model_start_set += "r";
  EXPECT_EQ(environment.make_model(spec_).error().code, ErrorCode::not_found);
}

TEST_F(Environment, TakesTokensForALargeVocabularyOnly) {
  spec_.data.format = "tokens";  // 5000 of 'aa', 24929
  EXPECT_NE(JobEnvironment(options_).trainer_options(spec_).error().detail.find(
                "reads samples of text u8[17], the data, data set 'text', has tokens i32"),
            std::string::npos);
  spec_.model_settings["vocabulary"] = "24930";
  const auto options = JobEnvironment(options_).trainer_options(spec_);
  ASSERT_TRUE(options) << options.error().detail;
  EXPECT_EQ(options->reader->data().fields(), options->model->sample_fields());
  EXPECT_TRUE(JobEnvironment(options_).prove(spec_, 3)->each_once());
  spec_.model_settings["vocabulary"] = "24929";
  EXPECT_NE(JobEnvironment(options_).trainer_options(spec_).error().detail.find(
                "holds token 24929 at position 0"),
            std::string::npos);
  spec_.data.format = "text";
  EXPECT_NE(JobEnvironment(options_).trainer_options(spec_).error().detail.find(
                "reads samples of tokens i32[17], the data, data set 'text', has text u8"),
            std::string::npos);
}

}  // namespace
}  // namespace gpunode::jobs
