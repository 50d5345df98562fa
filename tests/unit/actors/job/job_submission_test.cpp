#include "actors/job/job_submission.hpp"

#include <gtest/gtest.h>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <nlohmann/json.hpp>

#include <map>

#include "tests/support/ids.hpp"

namespace gpunode::jobs {
namespace {

FitNode fit(int number, int data, const char* fingerprint) {
  return {node(number),
          {Bytes(32, static_cast<std::byte>(data)), 100, 90, fingerprint, fingerprint, "0.1.0",
           "feedbeef00"}};
}

std::string name_of(const NodeId& id) {
  return "n" + std::to_string(std::to_integer<int>(id.value[0]));
}

job::JobSpec spec_of(std::uint32_t nodes, std::uint32_t min_nodes) {
  job::JobSpec spec;
  spec.nodes = nodes;
  spec.min_nodes = min_nodes;
  spec.data.path = "/data";
  return spec;
}

TEST(Candidates,
     are_the_largest_group_with_the_same_data_and_bits_and_the_rest_is_refused_by_name) {
  auto choice = choose_candidates(spec_of(3, 1),
                                  {fit(1, 7, "a"), fit(2, 7, "a"), fit(3, 8, "a"), fit(4, 7, "b")},
                                  {{node(5), "no such file"}}, node(4), name_of);
  ASSERT_TRUE(choice) << choice.error().message();
  EXPECT_EQ(choice->spec.candidates, (std::vector<NodeId>{node(1), node(2)}));
  EXPECT_EQ(choice->spec.fingerprint, "a");
  ASSERT_EQ(choice->refused.size(), 3u);
  std::string reasons;
  for (const Refusal& refusal : choice->refused)
    reasons += name_of(refusal.node) + " " + refusal.reason + "\n";
  EXPECT_NE(reasons.find("n3 its data"), std::string::npos) << reasons;
  EXPECT_NE(reasons.find("n4 it computes other bits"), std::string::npos) << reasons;
}

TEST(Candidates, are_led_by_the_submitter_and_no_more_than_wanted) {
  auto choice = choose_candidates(spec_of(2, 1), {fit(1, 7, "a"), fit(2, 7, "a"), fit(3, 7, "a")},
                                  {}, node(3), name_of);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->spec.candidates, (std::vector<NodeId>{node(3), node(1)}));
}

TEST(Candidates, of_two_equal_groups_are_the_submitters) {
  for (int self : {1, 2}) {
    auto choice =
        choose_candidates(spec_of(1, 1), {fit(1, 7, "a"), fit(2, 8, "a")}, {}, node(self), name_of);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->spec.candidates, std::vector<NodeId>{node(self)});
  }
}

TEST(Candidates, refused_are_told_what_differs_with_both_values_and_what_to_do) {
  FitNode version = fit(3, 7, "aaaaaaaabbbb"), model = fit(4, 7, "aaaaaaaabbbb");
  version.fitness.version = "0.0.9";
  model.fitness.model_digest = "0123456789";
  auto choice = choose_candidates(spec_of(6, 1),
                                  {fit(1, 7, "aaaaaaaabbbb"), fit(2, 7, "aaaaaaaabbbb"), version,
                                   model, fit(5, 8, "aaaaaaaabbbb"), fit(6, 7, "cccccccccccc")},
                                  {}, node(1), name_of);
  ASSERT_TRUE(choice) << choice.error().message();
  EXPECT_EQ(choice->spec.candidates, (std::vector<NodeId>{node(1), node(2)}));
  EXPECT_EQ(choice->spec.version, "0.1.0");
  EXPECT_EQ(choice->spec.model_digest, "feedbeef00");
  std::map<std::string, std::string> reasons;
  for (const Refusal& refusal : choice->refused) reasons[name_of(refusal.node)] = refusal.reason;
  const std::map<std::string, std::vector<std::string>> expected = {
      {"n3", {"0.0.9", "0.1.0", "install the same version"}},
      {"n4", {"model 'gpt'", "01234567,", "feedbeef)", "start it with"}},
      {"n5", {"/data", "sha256 08080808", "sha256 07070707", "copy it"}},
      {"n6", {"bits", ": cccccccc;", ": aaaaaaaa)", "need the same"}}};
  ASSERT_EQ(reasons.size(), expected.size());
  for (const auto& [who, words] : expected)
    for (const std::string& word : words)
      EXPECT_NE(reasons[who].find(word), std::string::npos) << who << ": " << reasons[who];
}

TEST(Candidates, too_few_are_an_error_that_names_every_refusal) {
  auto choice = choose_candidates(spec_of(3, 2), {fit(1, 7, "a")},
                                  {{node(2), "data: no such file"}}, node(1), name_of);
  ASSERT_FALSE(choice);
  EXPECT_NE(choice.error().detail.find("at least 2"), std::string::npos) << choice.error().detail;
  EXPECT_NE(choice.error().detail.find("n2: data: no such file"), std::string::npos)
      << choice.error().detail;
}

// Whose starter is gone after the holders had accepted how it starts, and it is finished where that
// was handed out.
TEST(Submission, of_one_that_others_began_to_start_goes_on_with_that_whoever_is_fit) {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor calls{system};
  ClusterState cluster;
  job::JobSpec begun = spec_of(1, 1);
  begun.name = "small";
  begun.candidates = {node(2)};
  begun.data_digest = Bytes(32, std::byte{7});
  begun.fingerprint = begun.fingerprint_text = "a";
  begun.version = "0.1.0";
  begun.model_digest = "77aa";
  const Bytes manifest = job::encode(begun);
  std::string told;
  auto me = caf::actor_cast<caf::actor>(calls.ptr());
  spawn_submission(system, {spec_of(1, 1), node(1), &cluster, me,
                            [me](std::string text) { caf::anon_send(me, text); }, false,
                            Queued{{1, 2}, {node(1)}, 3, manifest}});
  std::vector<std::string> asked;
  const auto answer = [&](const CallRequest& call) -> Result<SharedBytes> {
    if (call.name == "job.create") return Error{ErrorCode::already_exists, "finished here"};
    if (!call.name.starts_with("queue.")) return SharedBytes{};
    QueueNote note = std::get<QueueNote>(*decode_note(call.request.view));
    note.vote.manifest = manifest;
    note.vote.accepted = {1, node(2)};
    return SharedBytes::from(encode(note));
  };
  while (told.empty())
    calls->receive(
        [&](const CallRequest& call) {
          asked.push_back(call.name);
          call.done(answer(call));
        },
        [&](const std::string& text) { told = text; },
        caf::after(std::chrono::seconds(20)) >> [&] { told = "nothing is told"; });
  const auto body = nlohmann::json::parse(told, nullptr, false);
  EXPECT_EQ(body.value("started_on", nlohmann::json()).size(), 1u) << told;
  EXPECT_EQ(asked, (std::vector<std::string>{"queue.promise", "queue.accept", "job.create",
                                             "job.refused"}));
}

}  // namespace
}  // namespace gpunode::jobs
