#include "actors/job/job_rights.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "runtime/security/identity.hpp"

namespace gpunode::jobs {
namespace {

using namespace std::chrono_literals;
using view::OrderKind;

// Three nodes that know each other's keys: an owner, one that operates, one that only computes.
class JobRights : public ::testing::Test {
 protected:
  security::Identity owner_ = security::Identity::create();
  security::Identity operator_ = security::Identity::create();
  security::Identity other_ = security::Identity::create();
  std::map<NodeId, security::Rights> rights_{
      {owner_.id(), security::kRightCompute | security::kRightSubmit},
      {operator_.id(), security::kRightOperate},
      {other_.id(), security::kRightsDefault}};
  ClusterSnapshot cluster_;
  WallTime now_ = WallTime{} + 1000h;

  Authority of(const security::Identity& self) {
    return {
        self.id(),
        [this](const NodeId& node) { return rights_.contains(node) ? rights_[node] : 0; },
        [&self](std::string_view purpose, ByteView message) { return self.sign(purpose, message); },
        [this](const NodeId& by, std::string_view purpose, ByteView message,
               const security::Signature& signature) {
          for (const security::Identity* one : {&owner_, &operator_, &other_})
            if (one->id() == by)
              return security::verify(one->sign_key(), purpose, message, signature);
          return false;
        }};
  }
  job::JobSpec job() {
    job::JobSpec spec;
    spec.name = "small";
    spec.data.set = "texts";
    spec.model_settings = {{"layers", "1"}};
    spec.submitted = 17;
    sign_as_owner(of(owner_), spec);
    return spec;
  }
  view::SignedOrder order(const security::Identity& by, OrderKind kind = OrderKind::stop) {
    return signed_order(of(by), {.job = JobId{1, 2}, .kind = kind}, now_);
  }
  Result<void> checked(const view::SignedOrder& order) {
    return check_order(of(other_), cluster_, job(), JobId{1, 2}, order, now_);
  }
};

TEST_F(JobRights, the_owners_wish_stands_whatever_the_start_fills_in) {
  job::JobSpec spec = job();
  spec.candidates = {other_.id()};
  spec.fingerprint = "f";
  spec.data_bytes = 5;
  spec.waited_as = "00";
  EXPECT_TRUE(check_owner(of(other_), cluster_, spec));
}

TEST_F(JobRights, a_wish_that_was_changed_is_nobodys) {
  const std::map<std::string, std::function<void(job::JobSpec&)>> changes = {
      {"name", [](auto& spec) { spec.name = "large"; }},
      {"data", [](auto& spec) { spec.data.set = "secrets"; }},
      {"steps", [](auto& spec) { ++spec.train.steps; }},
      {"model", [](auto& spec) { spec.model_settings["layers"] = "2"; }},
      {"submitted", [](auto& spec) { ++spec.submitted; }},
      {"nodes", [](auto& spec) { ++spec.nodes; }},
      {"labels", [](auto& spec) { spec.labels = {"gpu"}; }},
      {"signature", [](auto& spec) { spec.owner_signature[3] ^= std::byte{1}; }},
      {"no signature", [](auto& spec) { spec.owner_signature.clear(); }}};
  for (const auto& [what, change] : changes) {
    job::JobSpec spec = job();
    change(spec);
    EXPECT_FALSE(check_owner(of(other_), cluster_, spec)) << what;
  }
}

TEST_F(JobRights, nobody_submits_for_another_or_without_the_right) {
  job::JobSpec spec = job();
  spec.submitter = operator_.id();
  EXPECT_FALSE(check_owner(of(other_), cluster_, spec));
  spec = job();
  sign_as_owner(of(other_), spec);
  EXPECT_FALSE(check_owner(of(owner_), cluster_, spec));
  rights_[owner_.id()] = 0;  // it was put out
  EXPECT_FALSE(check_owner(of(other_), cluster_, job()));
}

TEST_F(JobRights, the_owner_and_who_operates_order_and_nobody_else) {
  EXPECT_TRUE(checked(order(owner_)));
  EXPECT_TRUE(checked(order(operator_)));
  EXPECT_FALSE(checked(order(other_)));
}

TEST_F(JobRights, an_order_is_of_one_job_one_kind_and_one_time) {
  view::SignedOrder changed = order(owner_);
  changed.kind = OrderKind::remove;
  EXPECT_FALSE(checked(changed));
  changed = order(owner_);
  changed.job = JobId{1, 3};
  EXPECT_FALSE(check_order(of(other_), cluster_, job(), JobId{1, 3}, changed, now_));
  EXPECT_FALSE(check_order(of(other_), cluster_, job(), JobId{1, 3}, order(owner_), now_));
  changed = order(other_);
  changed.by = owner_.id();
  EXPECT_FALSE(checked(changed));
  const view::SignedOrder old = order(owner_), removal = order(owner_, OrderKind::remove);
  now_ += 2h;
  EXPECT_FALSE(checked(old));
  EXPECT_TRUE(checked(removal));  // who was away hears it late
  now_ -= 4h;
  EXPECT_FALSE(checked(old));  // from a clock that is far ahead
}

TEST_F(JobRights, an_order_comes_through_its_bytes_as_it_was) {
  view::SignedOrder sent = order(owner_, OrderKind::resume_from);
  const auto read = view::decode_order(view::encode(sent));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, sent);
  EXPECT_FALSE(view::decode_order({}));
  const Bytes bytes = view::encode(sent);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_FALSE(view::decode_order(ByteView(bytes).first(cut))) << cut;
}

TEST_F(JobRights, who_has_no_part_reads_only_if_it_observes) {
  job::JobSpec spec = job();
  EXPECT_TRUE(may_read(of(other_), cluster_, spec, owner_.id()));
  EXPECT_FALSE(may_read(of(owner_), cluster_, spec, other_.id()));
  rights_[other_.id()] |= security::kRightObserve;
  EXPECT_TRUE(may_read(of(owner_), cluster_, spec, other_.id()));
  rights_[other_.id()] = security::kRightsDefault;
  spec.candidates = {other_.id()};
  EXPECT_TRUE(may_read(of(owner_), cluster_, spec, other_.id()));
}

}  // namespace
}  // namespace gpunode::jobs
