#include "tools/gpunode/node_settings.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.hpp"

namespace gpunode::cli {
namespace {

class Settings : public ::testing::Test {
 protected:
  Settings() { given_.arguments.add("--state", folder_.path().string()); }

  void write(const std::string& text) {
    std::ofstream(folder_.path() / NodeSettings::kFile, std::ios::trunc) << text;
  }
  NodeSettings read() {
    auto settings = NodeSettings::read(given_);
    EXPECT_TRUE(settings) << settings.error().message();
    return settings ? *std::move(settings) : NodeSettings();
  }
  std::string refusal(const std::string& text) {
    write(text);
    const auto settings = NodeSettings::read(given_);
    return settings ? "" : settings.error().message();
  }
  static NodeSettings::Value value(const NodeSettings& settings, const std::string& key) {
    for (const NodeSettings::Value& one : settings.all())
      if (one.key == key) return one;
    return {};
  }

  gpunode::testing::TemporaryFolder folder_;
  Invocation given_;
};

TEST_F(Settings, a_path_is_of_the_folder_that_it_was_written_in) {
  write("http_tls_cert = \"tls/cert.pem\"\nhttp_tls_key = \"/etc/key.pem\"\n");
  EXPECT_EQ(read().arguments().text("--http-tls-cert"), (folder_.path() / "tls/cert.pem").string());
  EXPECT_EQ(read().arguments().text("--http-tls-key"), "/etc/key.pem");
  given_.arguments.add("--http-tls-cert", "here.pem");
  EXPECT_EQ(read().arguments().text("--http-tls-cert"),
            (std::filesystem::current_path() / "here.pem").string());
  given_.arguments.clear("--http-tls-cert");
  given_.arguments.add("--http-tls-cert", "none");
  EXPECT_EQ(read().arguments().text("--http-tls-cert"), "none");
}

TEST_F(Settings, a_flag_comes_before_the_file_and_the_file_before_an_earlier_start) {
  given_.arguments.add("--name", "told");
  given_.arguments.add("--label", "zone=a");
  ASSERT_TRUE(read().remember());
  given_ = {};
  given_.arguments.add("--state", folder_.path().string());
  EXPECT_EQ(value(read(), "name").values, std::vector<std::string>{"told"});
  EXPECT_EQ(value(read(), "name").source, Source::earlier);
  EXPECT_EQ(read().arguments().all("--label"), std::vector<std::string>{"zone=a"});

  write("name = \"written\"\nbulk_plain = true\nthreads = 3\n");
  EXPECT_EQ(value(read(), "name").source, Source::file);
  EXPECT_EQ(read().arguments().text("--name"), "written");
  EXPECT_EQ(read().arguments().text("--threads"), "3");
  EXPECT_TRUE(read().arguments().has("--bulk-plain"));
  EXPECT_EQ(value(read(), "labels").source, Source::earlier);

  given_.arguments.add("--name", "now");
  EXPECT_EQ(read().arguments().text("--name"), "now");
  EXPECT_EQ(value(read(), "listen").source, Source::fallback);
  EXPECT_FALSE(read().arguments().has("--listen"));
}

TEST_F(Settings, what_the_file_says_is_not_remembered_as_told) {
  write("name = \"written\"\n");
  ASSERT_TRUE(read().remember());
  write("");
  EXPECT_EQ(value(read(), "name").source, Source::fallback);
}

TEST_F(Settings, earlier_starts_can_be_forgotten) {
  given_.arguments.add("--advertise", "a.example");
  ASSERT_TRUE(read().remember());
  given_ = {};
  given_.arguments.add("--state", folder_.path().string());
  EXPECT_EQ(value(read(), "advertise").source, Source::earlier);
  for (int time = 0; time < 2; ++time) EXPECT_TRUE(NodeSettings::forget(folder_.path().string()));
  EXPECT_EQ(value(read(), "advertise").source, Source::fallback);
}

TEST_F(Settings, where_metrics_are_is_remembered_until_it_is_told_otherwise) {
  given_.arguments.add("--metrics", "127.0.0.1:9464");
  ASSERT_TRUE(read().remember());
  given_ = {};
  given_.arguments.add("--state", folder_.path().string());
  EXPECT_EQ(value(read(), "metrics").source, Source::earlier);
  EXPECT_EQ(read().arguments().text("--metrics"), "127.0.0.1:9464");
  given_.arguments.add("--metrics", "none");
  EXPECT_EQ(read().arguments().text("--metrics"), "none");
}

TEST_F(Settings, data_sets_have_paths_from_the_files_folder) {
  write("[data.books]\npath = \"texts/books\"\n[data.digits]\npath = \"/srv/digits\"\n");
  const auto sets = read().data_sets();
  EXPECT_EQ(sets.at("books").path, (folder_.path() / "texts/books").string());
  EXPECT_EQ(sets.at("digits").path, "/srv/digits");
  EXPECT_EQ(sets.at("digits").users, std::vector<std::string>{"any"});
}

TEST_F(Settings, data_sets_say_for_whose_jobs_they_are) {
  write("[data.a]\npath = \"/a\"\nfor = []\n[data.b]\npath = \"/b\"\nfor = [\"0f\"]\n");
  const auto sets = read().data_sets();
  EXPECT_TRUE(sets.at("a").users.empty());
  EXPECT_EQ(sets.at("b").users, std::vector<std::string>{"0f"});
}

TEST_F(Settings, a_data_set_told_by_a_flag_comes_before_the_files_and_is_remembered) {
  write("[data.a]\npath = \"/a\"\n[data.b]\npath = \"/b\"\n");
  given_.arguments.add("--data", "a=/else=where");
  given_.arguments.add("--data", "c=here");
  const std::string here = (std::filesystem::current_path() / "here").string();
  for (const bool again : {false, true}) {
    const auto settings = read();
    EXPECT_EQ(settings.data_sets().at("a").path, "/else=where") << again;
    EXPECT_EQ(settings.data_sets().at("b").path, "/b");
    EXPECT_EQ(settings.data_sets().at("c").path, here) << "in whichever folder it starts next";
    ASSERT_TRUE(settings.remember());
    given_ = {};
    given_.arguments.add("--state", folder_.path().string());
  }
}

TEST_F(Settings, a_data_flag_without_name_or_path_is_refused) {
  for (const char* wrong : {"a", "=b", "a="}) {
    given_ = {};
    given_.arguments.add("--state", folder_.path().string());
    given_.arguments.add("--data", wrong);
    const auto settings = NodeSettings::read(given_);
    ASSERT_FALSE(settings) << wrong;
    EXPECT_NE(settings.error().message().find("NAME=PATH"), std::string::npos);
  }
}

TEST_F(Settings, a_mistake_names_its_line_and_what_would_do) {
  const std::pair<const char*, std::vector<const char*>> kWrong[] = {
      {"name = \n", {"not TOML", "line 1"}},
      {"\nnmae = \"a\"\n", {"'nmae'", "'name'", "line 2"}},
      {"threads = \"three\"\n", {"threads", "a whole number"}},
      {"labels = \"gpu\"\n", {"labels", "list of texts"}},
      {"bulk_plain = 1\n", {"bulk_plain", "true or false"}},
      {"[data.x]\nfile = \"a\"\n", {"[data.x]", "path = "}},
      {"data = 3\n", {"[data.NAME]"}},
      {"[data.x]\npath = \"a\"\nfor = \"any\"\n", {"[data.x]", "for = "}},
      {"[data.x]\npath = \"a\"\nelse = 1\n", {"[data.x]"}},
  };
  for (const auto& [text, words] : kWrong) {
    const std::string message = refusal(text);
    for (const char* word : words)
      EXPECT_NE(message.find(word), std::string::npos) << message << " of " << text;
    EXPECT_NE(message.find(NodeSettings::kFile), std::string::npos) << message;
  }
}

TEST_F(Settings, a_file_that_is_named_must_be_there) {
  given_.arguments.add("--config", (folder_.path() / "none.toml").string());
  const auto settings = NodeSettings::read(given_);
  ASSERT_FALSE(settings);
  EXPECT_NE(settings.error().message().find("none.toml"), std::string::npos);
}

}  // namespace
}  // namespace gpunode::cli
