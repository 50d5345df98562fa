// What strangers say at the join endpoint, what issuers answer, and what nodes keep of both.
#include "runtime/security/audit_witness.hpp"
#include "runtime/security/detail/join_records.hpp"
#include "runtime/security/join_protocol.hpp"
#include "runtime/security/rights.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/sharing.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::fuzz {
namespace {

using namespace security;

const Identity& issuer() {
  static const Identity made = Identity::create();
  return made;
}
const Identity& joiner() {
  static const Identity made = Identity::create();
  return made;
}
WallTime some_time() {
  return WallTime(std::chrono::seconds(1'700'000'000));
}

Credentials credentials() {
  Admission admission{{},
                      joiner().id(),
                      joiner().sign_key(),
                      "second",
                      kRightsDefault,
                      some_time(),
                      some_time() + std::chrono::hours(9),
                      {}};
  admission.sign(issuer());
  Revocation revocation{{}, joiner().id(), "lost", {admission.digest()}, some_time(), {}};
  revocation.sign(issuer());
  return {{admission}, {joiner().link_key()}, {revocation}, {{issuer().id(), some_time()}}};
}

void run_credentials(ByteView input) {
  round_trip(input, decode_credentials, encode_credentials);
}

// Credentials are merged by whoever is told: who can read them goes on to judge them.
void run_merge(ByteView input) {
  const auto read = decode_credentials(input);
  if (!read) return;
  Admissions admissions({{}, issuer().id()});
  (void)admissions.found(issuer(), "first", some_time());
  const auto merged = admissions.merge(*read);
  GPUNODE_CHECK(merged, "a list in memory is not stored");
  GPUNODE_CHECK(admissions.merge(admissions.all())->added.empty(), "its own records are news");
}

void run_hello(ByteView input) {
  round_trip(input, decode_hello, encode_hello);
}
void run_banner(ByteView input) {
  round_trip(input, decode_banner, encode_banner);
}
void run_join_record(ByteView input) {
  round_trip(input, security::detail::decode_record, security::detail::encode_record);
}
void run_answer_body(ByteView input) {
  round_trip(input, security::detail::decode_answer_body, security::detail::encode_answer_body);
}
void run_tokens(ByteView input) {
  round_trip(input, security::detail::decode_tokens, security::detail::encode_tokens);
}

// A frame as it is, and one that is sealed as it has to be, with the input in it.
void run_join_frame(ByteView input) {
  (void)request_issuer(input);
  (void)open_request(input, issuer());
  (void)decode_answer(input, joiner(), issuer().id(), {});
  Bytes frame = text_bytes("gpnjoin");
  frame.push_back(std::byte{3});
  frame.push_back(std::byte{kJoinVersion});
  frame.push_back(std::byte{0});
  frame.insert(frame.end(), issuer().id().value.begin(), issuer().id().value.end());
  const Bytes sealed = seal_to(issuer().curve_key(), input);
  frame.insert(frame.end(), sealed.begin(), sealed.end());
  auto opened = open_request(frame, issuer());
  if (!opened) return;
  (void)proves_token(*opened, Secret<32>{}, {{}, issuer().id()}, issuer().curve_key());
  (void)believe_request(std::move(*opened));
}

JoinToken token() {
  JoinToken made;
  made.cluster = {{}, issuer().id()};
  made.issuer = issuer().id();
  made.issuer_curve = issuer().curve_key();
  made.expires = some_time();
  made.endpoints = {"tcp://10.0.0.1:7603", "tcp://[fe80::1]:7603"};
  return made;
}

// As a person pastes it, and as somebody writes it who knows how its check sum is made.
void run_token(ByteView input) {
  (void)JoinToken::parse(as_text(input));
  Bytes body = to_bytes(input);
  const Sha256 check = sha256(body);
  body.insert(body.end(), check.begin(), check.begin() + 4);
  const auto parsed = JoinToken::parse("gpn1_" + to_base64url(body));
  if (!parsed) return;
  const auto again = JoinToken::parse(parsed->text());
  GPUNODE_CHECK(again && again->text() == parsed->text(), "a token has two meanings");
}

Bytes opened_request() {
  JoinRequest request;
  request.record = {"third", {"tcp://10.0.0.3:7601"}, true, {"zone=a"}};
  const auto frame = encode_request(request, joiner(), token());
  GPUNODE_CHECK(frame, "a request");
  return *issuer().open_sealed(ByteView(*frame).subspan(8 + 2 + 32));
}

std::vector<Bytes> join_frames() {
  JoinRequest request;
  request.record = {"third", {}, false, {}};
  request.curve_key = joiner().curve_key();
  JoinAnswer answer;
  answer.admission = credentials().admissions[0];
  return {opened_request(), *encode_request(request, joiner(), token()),
          encode_answer(answer, request, issuer()),
          encode_refusal(JoinRefusal::token_expired, "yesterday")};
}

std::vector<Bytes> token_texts() {
  const std::string text = token().text();
  const Bytes body = *from_base64url(text.substr(5));
  return {text_bytes(text), Bytes(body.begin(), body.end() - 4)};
}

std::vector<Bytes> token_books() {
  std::map<TokenId, StoredToken> book;
  book[{}] = {Secret<32>{}, some_time(), 3, 1, {joiner().id()}, kRightsDefault, "lab"};
  return {security::detail::encode_tokens(book)};
}

std::vector<Bytes> answers() {
  JoinAnswer yes, no;
  yes.admission = credentials().admissions[0];
  yes.credentials = credentials();
  yes.members = Bytes(40);
  no.refusal = JoinRefusal::put_out;
  no.detail = "on Monday";
  return {security::detail::encode_answer_body(yes), security::detail::encode_answer_body(no)};
}

void run_rights(ByteView input) {
  const auto rights = parse_rights(as_text(input));
  if (!rights || *rights == 0) return;
  const auto again = parse_rights(to_text(*rights));
  GPUNODE_CHECK(again && *again == *rights, "rights have another meaning in words");
}

// A peer's word on audit logs. Signed by nobody, but for the seeds.
void run_audit_told(ByteView input) {
  static testing::MemoryFileSystem disk;
  static const bool there = bool(disk.create_folder("/state"));
  static auto log = AuditLog::open(disk, "/state", issuer());
  GPUNODE_CHECK(there && log, "a log in memory");
  AuditWitness witness = AuditWitness::open(disk, "/state");
  (void)witness.on_told(joiner().id(), joiner().sign_key(), input, *log, issuer());
}

std::vector<Bytes> audit_heads() {
  testing::MemoryFileSystem disk;
  const bool there = bool(disk.create_folder("/state"));
  const auto log = AuditLog::open(disk, "/state", joiner());
  GPUNODE_CHECK(there && log, "a log in memory");
  return {AuditWitness::told(*log, joiner())};
}

}  // namespace

std::vector<Target> join_targets() {
  return {
      {"credentials", run_credentials,
       [] {
         return std::vector<Bytes>{encode_credentials(credentials()), shared_revocations()};
       }},
      {"merge", run_merge,
       [] {
         return std::vector<Bytes>{encode_credentials(credentials()), shared_revocations()};
       }},
      {"join_hello", run_hello,
       [] {
         return std::vector<Bytes>{encode_hello({1, 1, issuer().id()})};
       }},
      {"join_banner", run_banner,
       [] {
         return std::vector<Bytes>{
             encode_banner({1, 1, {}, some_time(), issuer().id(), "first", {}})};
       }},
      {"join_record", run_join_record,
       [] {
         return std::vector<Bytes>{
             security::detail::encode_record({"third", {"tcp://10.0.0.3:7601"}, true, {"zone=a"}})};
       }},
      {"join_answer", run_answer_body, answers},
      {"join_tokens", run_tokens, token_books},
      {"join_frame", run_join_frame, join_frames},
      {"join_token", run_token, token_texts},
      {"rights", run_rights,
       [] {
         return std::vector<Bytes>{text_bytes("compute, call"), text_bytes("all")};
       }},
      {"audit_told", run_audit_told, audit_heads},
  };
}

}  // namespace gpunode::fuzz
