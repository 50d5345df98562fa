// A cluster with a founder, three that operate and a plain node, for tests of whose word counts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/security/admission.hpp"
#include "runtime/security/crypto.hpp"
#include "runtime/security/recovery_key.hpp"
#include "tests/support/revocations.hpp"
#include "tests/unit/runtime/security/now.hpp"

namespace gpunode::security {

// The founder has let in two that operate, first and second, and a plain node; the first has let in a
// third that operates.
struct Cluster {
  RecoveryKey key = RecoveryKey::create();
  Identity founder = Identity::create(), first = Identity::create(), second = Identity::create(),
           third = Identity::create(), plain = Identity::create();
  ClusterIdentity id{{random_array<16>()}, founder.id(), key.public_key()};
  Admission root = admission(founder, founder, kAllRights, std::chrono::seconds(0));
  Admission of_first = admission(founder, first, kAllRights, std::chrono::seconds(1));
  Admission of_second = admission(founder, second, kAllRights, std::chrono::seconds(2));
  Admission of_third = admission(first, third, kAllRights, std::chrono::seconds(3));
  Admission of_plain = admission(founder, plain, kRightsDefault, std::chrono::seconds(4));

  Admission admission(const Identity& issuer, const Identity& node, Rights rights,
                      std::chrono::seconds at) const {
    Admission record{id.id, node.id(), node.sign_key(), "node", rights, kNow + at, {}, {}, {}};
    record.sign(issuer);
    return record;
  }
  Revocation order(const Identity& issuer, const Identity& node,
                   const std::vector<Admission>& kept = {}) const {
    return testing::revocation_by(issuer, node, id.id, kNow + std::chrono::hours(1), kept);
  }
  Credentials members() const {
    return {{root, of_first, of_second, of_third, of_plain},
            {founder.link_key(), first.link_key(), second.link_key(), third.link_key(),
             plain.link_key()},
            {}};
  }
  std::string out(const Admissions& list) const {
    std::string names;
    for (const auto& [name, node] :
         {std::pair{'f', &founder}, std::pair{'1', &first}, std::pair{'2', &second},
          std::pair{'3', &third}, std::pair{'p', &plain}})
      if (!list.snapshot()->is_member(node->id(), kNow + std::chrono::hours(1))) names += name;
    return names;
  }
  // Who is out by these orders, in every order of arrival, told one by one and told again.
  std::string out_by(std::vector<Revocation> orders) const {
    std::ranges::sort(orders, {}, &Revocation::signature);
    std::string alike;
    do {
      Admissions list(id);
      EXPECT_TRUE(list.merge(members()));
      for (int round = 0; round < 2; ++round)
        for (const Revocation& one : orders) EXPECT_TRUE(list.merge({{}, {}, {one}}));
      EXPECT_TRUE(alike.empty() || alike == out(list)) << alike << " or " << out(list);
      alike = out(list);
    } while (std::ranges::next_permutation(orders, {}, &Revocation::signature).found);
    return alike;
  }
};

}  // namespace gpunode::security
