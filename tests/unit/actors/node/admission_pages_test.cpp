// A cluster that many nodes were in: who joins is answered in short, and hears of the others in pages.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <thread>

#include "actors/node/node_parts.hpp"
#include "runtime/security/admission.hpp"
#include "runtime/security/identity.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/memory_link.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::node {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

class AdmissionPages : public ::testing::Test {
 protected:
  std::unique_ptr<Node> start(const std::string& name, const std::string& join_address = "",
                              const std::string& token = "") {
    NodeConfig config;
    config.state_directory = state(name).string();
    config.name = name;
    config.listen = "127.0.0.1:0";
    config.threads = 1;
    config.join = join_address;
    config.token = token;
    NodeParts parts;
    parts.open_link = [this](const NodeId& id, Boot boot, transport::LinkEvents events) {
      return std::shared_ptr<transport::Link>(network_.open(id, boot, std::move(events)));
    };
    auto node = start_node(config, parts);
    EXPECT_TRUE(node) << node.error().message();
    return node ? std::move(*node) : nullptr;
  }
  std::filesystem::path state(const std::string& name) const { return folder_.path() / name; }
  std::unique_ptr<security::Admissions> list(const std::string& name) {
    auto cluster = security::ClusterIdentity::load(files_, state(name));
    EXPECT_TRUE(cluster);
    auto list = security::Admissions::open(files_, state(name), *cluster);
    EXPECT_TRUE(list) << list.error().message();
    return list ? std::move(*list) : nullptr;
  }
  std::size_t known(const std::string& name) { return list(name)->snapshot()->size(); }

  testing::TemporaryFolder folder_;
  storage::PosixFileSystem files_;
  transport::MemoryNetwork network_;
};

TEST_F(AdmissionPages, tell_who_joins_of_all_past_members) {
  constexpr std::size_t kPast = 600;  // more than go out at once
  start("first").reset();
  {
    auto founder = security::Identity::load_or_create(files_, state("first"));
    ASSERT_TRUE(founder);
    auto past = list("first");
    security::Credentials many;
    for (std::size_t number = 0; number < kPast; ++number) {
      const auto keys = security::Identity::create();
      security::Admission record;
      record.cluster = past->cluster().id;
      record.node = keys.id();
      record.sign_key = keys.sign_key();
      record.name = "past" + std::to_string(number);
      record.issued = std::chrono::system_clock::now();
      record.sign(*founder);
      many.admissions.push_back(std::move(record));
      many.link_keys.push_back(keys.link_key());
    }
    ASSERT_TRUE(past->merge(many));
  }
  auto first = start("first");
  ASSERT_EQ(known("first"), kPast + 1);
  const json made = json::parse(first->command("token.create", "{}"));
  ASSERT_TRUE(made.value("ok", false)) << made;
  auto second = start("second", first->join_endpoints().front().substr(6), made["token"]);
  ASSERT_NE(second, nullptr);
  const auto until = std::chrono::steady_clock::now() + 60s;
  std::size_t heard = 0;
  while (heard < kPast + 2 && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
    heard = known("second");
  }
  EXPECT_EQ(heard, kPast + 2) << "the past ones, the first and the second";
  EXPECT_EQ(list("first")->summary(), list("second")->summary());
}

}  // namespace
}  // namespace gpunode::node
