// Messages whose many fields point to the same few bytes: what no encoder of ours writes, and no
// mutation comes upon. Small on the wire, they would be hundreds of megabytes in memory.
#include <flatbuffers/flatbuffers.h>

#include "runtime/base/aligned_copy.hpp"
#include "schemas/directory_generated.h"
#include "schemas/history_generated.h"
#include "schemas/job_generated.h"
#include "schemas/jobs_generated.h"
#include "schemas/join_generated.h"
#include "schemas/manifest_generated.h"
#include "tests/fuzz/sharing.hpp"

namespace gpunode::fuzz {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

namespace {

template <class T>
Offset<flatbuffers::Vector<Offset<T>>> repeated(FlatBufferBuilder& builder, Offset<T> one,
                                                std::size_t count) {
  return builder.CreateVector(std::vector<Offset<T>>(count, one));
}

using Voters = flatbuffers::Vector<const gpunode::wire::view::NodeId*>;

// What is read as a view: with a member.
Offset<gpunode::wire::view::View> view_of(FlatBufferBuilder& builder,
                                          const gpunode::wire::view::Digest& job,
                                          Offset<Voters> voters,
                                          const gpunode::wire::view::NodeId& tie) {
  const std::vector<gpunode::wire::view::Member> one{{tie, 1}};
  const auto members = builder.CreateVectorOfStructs(one);
  gpunode::wire::view::ViewBuilder view(builder);
  view.add_job(&job);
  view.add_view_id(3);
  view.add_members(members);
  view.add_acceptors(voters);
  view.add_tie(&tie);
  return view.Finish();
}

std::vector<gpunode::wire::view::NodeId> many_nodes() {
  std::vector<gpunode::wire::view::NodeId> nodes(500);
  for (std::uint16_t i = 0; i < nodes.size(); ++i) std::memcpy(&nodes[i], &i, sizeof i);
  return nodes;
}

}  // namespace

Bytes shared_revocations() {
  namespace wire = gpunode::wire::join;
  FlatBufferBuilder builder;
  const wire::Bytes16 cluster{};
  const wire::Bytes32 node{};
  const wire::Bytes64 signature{};
  const auto kept = builder.CreateVectorOfStructs(std::vector<wire::Bytes32>(1000));
  const auto one = wire::CreateRevocation(builder, &cluster, &node, builder.CreateString("x"), kept,
                                          1, &node, &signature);
  const auto credentials = wire::CreateCredentials(builder, 0, 0, repeated(builder, one, 2000));
  wire::JoinBuilder join(builder);
  join.add_credentials(credentials);
  wire::FinishJoinBuffer(builder, join.Finish());
  return finished_bytes(builder);
}

Bytes shared_items() {
  namespace wire = gpunode::wire::directory;
  FlatBufferBuilder builder;
  const wire::Id id{};
  const auto value = builder.CreateVector(std::vector<std::uint8_t>(4096));
  std::vector<Offset<wire::Item>> items;
  for (std::uint64_t version = 1; version <= 500; ++version)
    items.push_back(wire::CreateItem(builder, builder.CreateString("key"), value, version));
  const auto delta =
      wire::CreateDelta(builder, &id, 1, 0, 600, &id, 0, 0, 600, builder.CreateVector(items));
  const auto all = repeated(builder, delta, 5);
  wire::FinishMessageBuffer(builder, wire::CreateMessage(builder, 3, &id, 0, all));
  return finished_bytes(builder);
}

Bytes shared_labels_of_hint() {
  namespace wire = gpunode::wire::jobs;
  FlatBufferBuilder builder;
  const auto label = builder.CreateString(std::string(20'000, 'x'));
  const auto labels = repeated(builder, label, 3000);
  const auto hint =
      wire::CreateHint(builder, builder.CreateString("n"), builder.CreateString("running"), 0, 1, 1,
                       1, 1, 1, false, labels);
  builder.Finish(wire::CreateNote(builder, wire::Body::Hint, hint.Union()), wire::NoteIdentifier());
  return finished_bytes(builder);
}

Bytes shared_labels_of_manifest(ByteView manifest) {
  namespace wire = gpunode::wire::manifest;
  const AlignedCopy copy(manifest);
  const wire::Manifest* like = wire::GetManifest(copy.data());
  FlatBufferBuilder builder;
  const auto settings = [&](const auto* from) {
    std::vector<Offset<wire::Setting>> all;
    for (const wire::Setting* one : *from)
      all.push_back(wire::CreateSettingDirect(builder, one->key()->c_str(), one->value()->c_str()));
    return builder.CreateVector(all);
  };
  const auto own = settings(like->settings());
  const auto model = settings(like->model_settings());
  const auto labels = repeated(builder, builder.CreateString(std::string(20'000, 'x')), 3000);
  builder.Finish(wire::CreateManifest(builder, like->format(), own, model, labels),
                 wire::ManifestIdentifier());
  return finished_bytes(builder);
}

Bytes shared_events() {
  namespace wire = gpunode::wire::history;
  FlatBufferBuilder builder;
  const auto by = builder.CreateVector(std::vector<std::uint8_t>(32));
  const auto event =
      wire::CreateEvent(builder, 1, builder.CreateString(std::string(30'000, 'x')), by);
  const auto events = repeated(builder, event, 1000);
  builder.Finish(wire::CreateHistory(builder, 1, nullptr, 0, 0, 0, 0, events),
                 wire::HistoryIdentifier());
  return finished_bytes(builder);
}

Bytes shared_slices() {
  namespace wire = gpunode::wire::history;
  FlatBufferBuilder builder;
  std::vector<std::uint8_t> nodes(32 * 500);
  for (std::size_t i = 0; i < 500; ++i) std::memcpy(nodes.data() + 32 * i, &i, sizeof i);
  const auto ids = builder.CreateVector(nodes);
  const auto slices =
      wire::CreateSlices(builder, ids, builder.CreateVector(std::vector<std::uint64_t>(500, 1)));
  const auto computed = repeated(builder, slices, 4000);
  builder.Finish(wire::CreateHistory(builder, 1, nullptr, 0, 0, 0, computed),
                 wire::HistoryIdentifier());
  return finished_bytes(builder);
}

Bytes shared_views(const Digest& job) {
  namespace wire = gpunode::wire::job;
  namespace views = gpunode::wire::view;
  FlatBufferBuilder builder;
  const views::Digest id(job.high, job.low);
  const std::vector<views::NodeId> nodes = many_nodes();
  const auto voters = builder.CreateVectorOfStructs(nodes);
  const auto one_view = view_of(builder, id, voters, nodes[0]);
  const auto decided = views::CreateDecidedView(builder, one_view, nullptr, voters);
  const auto chain = repeated(builder, decided, 2000);
  const auto notice = wire::CreateViewNotice(builder, chain);
  wire::FinishJobFrameBuffer(builder, wire::CreateJobFrame(builder, &id, nullptr, 7, 1,
                                                           wire::Body::ViewNotice, notice.Union()));
  return finished_bytes(builder);
}

Bytes shared_promises(const Digest& job) {
  namespace wire = gpunode::wire::job;
  namespace views = gpunode::wire::view;
  FlatBufferBuilder builder;
  const views::Digest id(job.high, job.low);
  const views::Ballot ballot(1, {});
  const std::vector<views::NodeId> nodes = many_nodes();
  const auto voters = builder.CreateVectorOfStructs(nodes);
  const auto accepted = view_of(builder, id, voters, nodes[0]);
  const auto standing = views::CreateStanding(builder);
  views::ToldBuilder told(builder);
  told.add_accepted_ballot(&ballot);
  told.add_accepted(accepted);
  told.add_standing(standing);
  const auto one = told.Finish();
  const auto pacings = repeated(builder, views::CreatePacing(builder), 1);
  const auto lists = repeated(builder, views::CreateNodeList(builder), 1);
  const auto promises = repeated(builder, one, 3000);
  const auto level = views::CreateLevel(builder, &ballot, promises, pacings, lists);
  const auto proof = views::CreateProof(builder, repeated(builder, level, 1));
  const auto accept = wire::CreateAccept(builder, &ballot, accepted, proof);
  wire::FinishJobFrameBuffer(builder, wire::CreateJobFrame(builder, &id, nullptr, 7, 1,
                                                           wire::Body::Accept, accept.Union()));
  return finished_bytes(builder);
}

}  // namespace gpunode::fuzz
