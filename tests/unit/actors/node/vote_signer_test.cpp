#include "actors/node/vote_signer.hpp"

#include <ctime>

#include <cstdio>
#include <deque>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "runtime/view/view_agreement.hpp"

namespace gpunode::node {
namespace {

using namespace std::chrono_literals;

TEST(VoteSigner, a_signature_is_its_owners_for_one_purpose_and_one_message) {
  const auto one = security::Identity::create(), other = security::Identity::create();
  const VoteSigner signer(one);
  const Bytes message(100, std::byte{7});
  const view::Signature good = signer.sign("purpose", message);
  const VoteSigner elsewhere(other);
  EXPECT_TRUE(elsewhere.verify(one.id(), "purpose", message, good)) << "whoever sees it";
  EXPECT_FALSE(elsewhere.verify(other.id(), "purpose", message, good));
  EXPECT_FALSE(elsewhere.verify(one.id(), "another", message, good));
  EXPECT_FALSE(elsewhere.verify(one.id(), "purpose", Bytes(99, std::byte{7}), good));
  for (const std::size_t at : {0u, 31u, 32u, 95u}) {
    view::Signature bad = good;
    bad[at] ^= std::byte{1};
    EXPECT_FALSE(elsewhere.verify(one.id(), "purpose", message, bad)) << "byte " << at;
  }
}

// Signs nothing and believes all: what a view change costs without.
class NoSigner : public view::Signer {
 public:
  view::Signature sign(std::string_view, ByteView) const override { return {}; }
  bool verify(const NodeId&, std::string_view, ByteView, const view::Signature&) const override {
    return true;
  }
};

double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// Voters whose messages and disks take no time: what is left is the work of their processors.
class Voters {
 public:
  Voters(std::size_t count, bool sign) {
    view::View first;
    for (std::size_t i = 0; i < count; ++i) {
      keys_.push_back(security::Identity::create());
      first.acceptors.push_back(keys_.back().id());
    }
    first.tie = first.acceptors.front();
    for (std::size_t i = 0; i < count; ++i) {
      index_[keys_[i].id()] = i;
      view::ViewAgreement::Options options;
      options.self = keys_[i].id();
      options.votes.view = first;
      std::shared_ptr<const view::Signer> signer = std::make_shared<NoSigner>();
      if (sign) signer = std::make_shared<VoteSigner>(keys_[i]);
      options.trust = {first, signer, false, {}};
      options.compose = [this, i](const auto&, const auto&, bool) {
        return Result<view::View>(next_of(i));
      };
      options.hear = [](const auto&) { return view::Hearsay{}; };
      options.follows = [this, i](const auto&, const auto&, const view::View& next, bool) {
        return next == next_of(i);
      };
      options.freeze = [] { return view::Standing{}; };
      options.suspected = [](const NodeId&) { return false; };
      voters_.push_back(std::make_unique<view::ViewAgreement>(std::move(options)));
    }
    spent_.resize(count);
  }

  // What the proposer and the slowest of the others spend on one view change, one after the other.
  double change_view() {
    std::fill(spent_.begin(), spent_.end(), 0.0);
    now_ += 10s;
    work(0,
         [&](auto& voter, auto& out) { voter.want_change(now_), voter.on_tick(now_ + 1s, out); });
    while (!mail_.empty()) {
      auto [to, from, message] = std::move(mail_.front());
      mail_.pop_front();
      work(to, [&](auto& voter, auto& out) { voter.on_message(now_ + 1s, from, message, out); });
    }
    double slowest = 0;
    for (std::size_t i = 1; i < spent_.size(); ++i) slowest = std::max(slowest, spent_[i]);
    return spent_[0] + slowest;
  }
  std::uint64_t view_id() const { return voters_.back()->view().view_id; }

 private:
  view::View next_of(std::size_t voter) const {
    view::View next = voters_[voter]->view();
    ++next.view_id;
    next.previous = voters_[voter]->view().digest();
    if (next.members.empty())
      for (const NodeId& node : next.acceptors) next.members.push_back({node, 1});
    return next;
  }
  template <class Input>
  void work(std::size_t at, Input input) {
    view::ViewAgreement::Effects out;
    const double before = cpu_ms();
    input(*voters_[at], out);
    while (!out.persists.empty()) {
      const std::uint64_t token = out.persists.back().first;
      out.persists.clear();
      voters_[at]->on_persisted(now_ + 1s, token, out);
    }
    spent_[at] += cpu_ms() - before;
    for (auto& [to, message] : out.sends)
      mail_.push_back({index_.at(to), keys_[at].id(), std::move(message)});
    if (!out.decided) return;
    const view::ViewChain told{*out.decided};
    for (std::size_t i = 0; i < voters_.size(); ++i) {
      const double begun = cpu_ms();
      auto proven = i == at ? voters_[i]->with(told.back()) : voters_[i]->prove(told, false).chain;
      ASSERT_FALSE(proven.empty());
      view::ViewAgreement::Effects ignored;
      voters_[i]->adopt(std::move(proven), ignored);
      spent_[i] += cpu_ms() - begun;
    }
    mail_.clear();
  }

  struct Mail {
    std::size_t to;
    NodeId from;
    view::VoteMessage message;
  };
  std::vector<security::Identity> keys_;
  std::map<NodeId, std::size_t> index_;
  std::vector<std::unique_ptr<view::ViewAgreement>> voters_;
  std::vector<double> spent_;
  std::deque<Mail> mail_;
  Time now_{};
};

double usual_ms(std::size_t voters, bool sign) {
  Voters all(voters, sign);
  std::vector<double> took;
  for (int i = 0; i < 21; ++i) took.push_back(all.change_view());
  EXPECT_EQ(all.view_id(), 21u);
  std::nth_element(took.begin(), took.begin() + 10, took.end());
  return took[10];
}

TEST(VoteSigner, a_view_change_costs_at_most_five_milliseconds_more_with_signatures) {
  for (const std::size_t voters : {3u, 9u, 33u}) {
    const double with = usual_ms(voters, true), without = usual_ms(voters, false);
    std::printf("%2zu voters: %.3f ms of a view change with signatures, %.3f ms without\n", voters,
                with, without);
    if (voters < 10) {
      EXPECT_LT(with - without, 5.0);
    }
  }
}

}  // namespace
}  // namespace gpunode::node
