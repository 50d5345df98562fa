// What is said of jobs: the messages of a job's members, manifests, orders, notes, histories, traces.
#include "actors/job/job_history_codec.hpp"
#include "actors/job/job_note_codec.hpp"
#include "actors/job/trace_codec.hpp"
#include "runtime/job/job_codec.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/view/signed_order.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/sharing.hpp"
#include "tests/support/ids.hpp"
#include "tests/support/twin_orders.hpp"
#include "tests/support/twin_proofs.hpp"

namespace gpunode::fuzz {
namespace {

using namespace job;

constexpr std::uint64_t kElements = 100'000;  // some chunks
const JobId kJob{3, 4};

view::View some_view() {
  view::View view;
  view.job = kJob;
  view.view_id = 8;
  view.members = {{node(1), 3}, {node(2), 4}};
  view.acceptors = {node(1), node(2)};
  view.tie = node(2);
  view.plan = {0, 1, 1, 0};
  view.base_step = 33;
  view.sync_sources = {node(1)};
  view.turns = {{5, 20, 66, view::Turn::Kind::rollback}, {7, 30, 77, view::Turn::Kind::split}};
  view.paces = {1, 2, 3};
  view.floor = {{{1, 66}, 25}, {node(2)}};
  view.order = view::order_of(kJob, node(1), view::OrderKind::stop, 4);
  return view;
}

view::DecidedView decided() {
  view::View before;
  before.acceptors = {node(1), node(2), node(3)};
  before.tie = node(1);
  return view::decided_by(before, some_view(), {node(1), node(3)});
}

view::Standing standing() {
  view::Standing where;
  where.boot = 9;
  where.applied = 32;
  where.held = 33;
  where.checkpoint = {{1, 5}, 30};
  where.unreachable = {node(3)};
  where.learners = {node(4)};
  where.order = view::order_of(kJob, node(1), view::OrderKind::resume_from, 5, 20);
  where.plan = {0, 1};
  where.paces = {1, 2, 3};
  where.floor = {{{1, 5}, 20}, {node(1), node(3)}};
  return where;
}

// Two ballots: the second takes over what node 3 has accepted in the first.
view::Proof proof(const view::View& accepted) {
  const view::View now;
  const view::Ballot first{2, node(2)}, second{3, node(1)};
  view::Proof shown = view::proof_by({{node(1), standing()}, {node(3), {}}}, now, first);
  shown.levels.insert(shown.levels.begin(),
                      {second,
                       {view::told_by(node(3), now, second, {}, {{first, accepted}}),
                        view::told_by(node(1), now, second, {}, {{first, now}})}});
  shown.hearsay = {{node(4)}, {{{node(5), 1}, true, {{1, 5}, 30}, {8, 9}, true}}, {node(6)}};
  return shown;
}

std::vector<JobBody> bodies() {
  const SharedBytes bytes = SharedBytes::from(Bytes(12));
  const view::Ballot ballot{3, node(1)};
  return {
      Vote{view::Prepare{ballot, "late"}},
      Vote{view::Promise{ballot, view::AcceptedView{{2, node(2)}, some_view(), proof(some_view())},
                         standing()}},
      Vote{view::Refuse{ballot}},
      Vote{view::Accept{ballot, some_view(), proof(some_view())}},
      Vote{view::Accepted{ballot, {}}},
      Vote{view::Probe{4}},
      Vote{view::Echo{4}},
      Vote{view::NoteFloor{{{{1, 5}, 20}, {node(1), node(2)}}}},
      Vote{view::FloorNoted{{{1, 5}, 20}}},
      FreezeHint{"why", {node(1)}},
      ViewNotice{{decided(), decided()}},
      ViewAsk{},
      JoinAsk{{1, 2}, false, 77, false, 0, {node(2)}},
      JoinRefused{"no"},
      StepStatus{5, true, true},
      StateAsk{5},
      StateMeta{5, 6, {1, 1}, {2, 2}, {{3, 3}, 4}},
      StateRead{{5, 5}, 6, 7},
      StatePart{{5, 5}, 6, bytes},
      WitnessOffer{true},
      ResultRead{5, 6, 7},
      ResultPart{5, 6, {1, 1}, {{3, 3}, 4}, bytes},
      LeaseAsk{Time(Duration(7)), {{1, 5}, 40}, {8, 9}},
      LeaseGrant{Time(Duration(7)), true, true, {{1, 5}, 40}},
      GroupInvite{Bytes(100)},
      StepMessage{5, {1, 2}, collective::Done{{1, 1}, {}, {}}},
      StepMessage{5, {1, 2}, collective::Need{{0, 1}, {2}, true}},
      StepMessage{5, {1, 2}, collective::PartialChunk{1, {0, 1}, {}, bytes}},
      StepMessage{5, {1, 2}, collective::ResultChunk{1, {}, bytes}},
  };
}

// [payload length 2][payload][body].
Bytes joined(const collective::EncodedMessage& message) {
  Bytes all;
  all.push_back(static_cast<std::byte>(message.payload.size() & 0xff));
  all.push_back(static_cast<std::byte>(message.payload.size() >> 8 & 0xff));
  all.insert(all.end(), message.payload.view.begin(), message.payload.view.end());
  all.insert(all.end(), message.body.begin(), message.body.end());
  return all;
}

Result<JobMessage> read(ByteView input) {
  if (input.size() < 2) return Error{ErrorCode::corrupted, "short"};
  const std::size_t told =
      std::to_integer<std::size_t>(input[0]) | std::to_integer<std::size_t>(input[1]) << 8;
  input = input.subspan(2);
  const std::size_t here = std::min(told, input.size());
  return decode_message(input.subspan(here), SharedBytes::from(to_bytes(input.first(here))), kJob,
                        kElements);
}

void run_message(ByteView input) {
  round_trip(input, read,
             [](const JobMessage& message) { return joined(encode_message(message)); });
}

std::vector<Bytes> messages() {
  std::vector<Bytes> all;
  for (JobBody& body : bodies())
    all.push_back(joined(encode_message({kJob, {{2, 6}, 7}, 5, std::move(body)})));
  all.push_back(joined({shared_views(kJob), {}}));
  all.push_back(joined({shared_promises(kJob), {}}));
  return all;
}

// The file of an acceptor's votes; the check sum behind it is put right.
void run_votes(ByteView input) {
  Bytes file = to_bytes(input);
  const Digest check = digest_of(file);
  const auto* bytes = reinterpret_cast<const std::byte*>(&check);
  file.insert(file.end(), bytes, bytes + sizeof check);
  round_trip(file, view::decode_votes, view::encode_votes);
  (void)view::decode_votes(input);
}

std::vector<Bytes> votes() {
  const view::DecidedView one = decided();
  const Bytes file =
      view::encode_votes({one.view,
                          {one},
                          {3, node(1)},
                          view::AcceptedView{{2, node(2)}, one.view, proof(one.view)},
                          one.view.floor});
  return {Bytes(file.begin(), file.end() - sizeof(Digest))};
}

void run_manifest(ByteView input) {
  round_trip(
      input, [](ByteView bytes) { return decode(bytes); },
      [](const JobSpec& spec) { return encode(spec); });
}

std::vector<Bytes> manifests() {
  JobSpec spec;
  spec.name = "text";
  spec.labels = {"gpu"};
  spec.data.path = "corpus.txt";
  spec.model_settings = {{"layers", "2"}, {"heads", "2"}};
  spec.data_digest = Bytes(32);
  spec.candidates = {node(1), node(2)};
  spec.fingerprint = "f";
  spec.owner_signature = Bytes(64);
  return {encode(spec), shared_labels_of_manifest(encode(spec))};
}

void run_order(ByteView input) {
  round_trip(input, view::decode_order,
             [](const view::SignedOrder& order) { return encode(order); });
}

void run_note(ByteView input) {
  using namespace jobs;
  round_trip(input, decode_note, [](const JobNote& note) { return encode(note); });
}

std::vector<Bytes> notes() {
  using namespace jobs;
  JobHint hint;
  hint.name = "job";
  hint.phase = JobPhase::running;
  hint.labels = {"gpu", "west"};
  hint.submitter = node(2);
  hint.removal = Bytes(90);
  return {encode(JobNote(Fitness{Bytes(32), 10, 9, "f", "cpu", "0.1.0", "m", 5, 6, 7})),
          encode(JobNote(hint)),
          encode(JobNote(JobRefusals{{1, 2}, {{node(1), "full"}, {node(2), "old"}}})),
          encode(JobNote(
              QueueNote{{1, 2}, {{3, node(1)}, {2, node(2)}, Bytes(90)}, {node(1), node(2)}})),
          shared_labels_of_hint()};
}

const WallTimes& times() {
  static const WallTimes made = [] {
    WallTimes known;
    known.look(FakeClock());
    return known;
  }();
  return made;
}

void run_history(ByteView input) {
  using namespace jobs;
  round_trip(
      input, [](ByteView bytes) { return decode_history(bytes, times(), node(1)); },
      [](const JobHistory& history) {
        return encode_history(history, ~std::uint64_t{0}, times(), node(1));
      });
}

std::vector<Bytes> histories() {
  using namespace jobs;
  JobHistory history;
  const auto computed =
      std::make_shared<const SliceCounts>(SliceCounts{{node(1), 3}, {node(2), 1}});
  for (std::uint64_t step = 1; step <= 5; ++step)
    history.add({.time = Time(std::chrono::seconds(step)),
                 .step = step,
                 .view_id = 1,
                 .state = {step, step},
                 .loss = 0.5,
                 .computed = computed});
  history.add_event({Time(std::chrono::seconds(2)), "began", node(2)});
  return {encode_history(history, 5, times(), node(1)), shared_events(), shared_slices()};
}

void run_trace(ByteView input) {
  round_trip(input, jobs::decode_spans, jobs::encode_spans);
}

std::vector<Bytes> traces() {
  using telemetry::Span;
  using telemetry::SpanKind;
  std::vector<Span> spans;
  for (std::uint64_t step = 1; step <= 3; ++step)
    spans.push_back({SpanKind::sum, 1, 2, step, 9, Time(Duration(step)), Time(Duration(step + 5))});
  return {jobs::encode_spans(spans)};
}

}  // namespace

// A proof tells once what its promises share: plans and lists, but no views.
constexpr std::size_t kProofBytes = std::size_t{8} << 20;

std::vector<Target> job_targets() {
  return {
      {"job_message", run_message, messages, kProofBytes},
      {"votes", run_votes, votes, kProofBytes},
      {"job_manifest", run_manifest, manifests},
      {"job_order", run_order,
       [] {
         return std::vector<Bytes>{
             encode(view::SignedOrder{kJob, view::OrderKind::resume_from, 20, false, node(1),
                                      1'700'000'000'000'000, 1'700'000'060'000'000})};
       }},
      {"job_note", run_note, notes},
      {"job_history", run_history, histories, std::size_t{2} << 20},
      {"trace", run_trace, traces},
  };
}

}  // namespace gpunode::fuzz
