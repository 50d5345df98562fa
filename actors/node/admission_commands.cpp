#include "actors/node/admission_commands.hpp"

#include <algorithm>
#include <sstream>

#include "actors/json_answer.hpp"
#include "runtime/security/recovery_key.hpp"

namespace gpunode::node {
namespace {

using nlohmann::json;
using security::Rights;
using security::WallTime;

constexpr std::size_t kShortestPrefix = 4;  // of an id

Result<void> note(const AdmissionOptions& options, WallTime now, std::string_view event,
                  const std::vector<security::AuditField>& fields) {
  if (!options.audit) return {};
  auto logged = options.audit->append(now, event, fields);
  return logged ? Result<void>() : Result<void>(logged.error().within("audit log"));
}

bool begins(const std::string& id, const std::string& word) {
  return word.size() >= kShortestPrefix && id.starts_with(word);
}

// Whom a person means: a name, as `nodes` shows it or as the node was admitted, or an id.
Result<NodeId> node_of(const AdmissionOptions& options, const std::string& word) {
  const auto cluster = options.cluster->read();
  const auto list = options.admissions->snapshot();
  std::vector<NodeId> found;
  list->for_each([&](const NodeId& id, const security::Standing& standing) {
    if (cluster->name_of(id) == word || begins(id.text(), word) ||
        (!cluster->find(id) && standing.name() == word))
      found.push_back(id);
  });
  if (found.size() == 1) return found.front();
  if (found.empty())
    return Error{ErrorCode::not_found,
                 "no node '" + word + "' was ever admitted: `gpunode nodes` lists them"};
  std::string ids;
  for (const NodeId& id : found) ids += (ids.empty() ? "" : ", ") + id.short_text();
  return Error{ErrorCode::invalid_argument,
               "'" + word + "' may be " + ids + ": give more of the id"};
}

std::string name_of(const AdmissionOptions& options, const NodeId& node) {
  const auto cluster = options.cluster->read();
  const auto list = options.admissions->snapshot();
  const security::Standing* standing = list->find(node);
  return cluster->find(node) || !standing ? cluster->name_of(node) : standing->name();
}

// How many, and which, as far as there is room.
std::string ids_of(const std::vector<NodeId>& nodes) {
  constexpr std::size_t kTold = 32;
  std::string text = std::to_string(nodes.size());
  for (std::size_t at = 0; at < std::min(kTold, nodes.size()); ++at)
    text += (at == 0 ? ": " : ", ") + nodes[at].short_text();
  return text + (nodes.size() > kTold ? ", ..." : "");
}

}  // namespace

Result<json> create_token(const AdmissionOptions& options, const json& arguments, WallTime now) {
  security::TokenBook::Options wanted;
  wanted.term = std::chrono::seconds(field<std::int64_t>(arguments, "ttl_seconds", 900));
  wanted.uses = field<std::uint32_t>(arguments, "uses", 1);
  wanted.label = field<std::string>(arguments, "label", "");
  const std::string roles = field<std::string>(arguments, "roles", "");
  if (!roles.empty()) {
    const auto rights = security::parse_rights(roles);
    if (!rights) return rights.error().within("roles");
    wanted.rights = *rights;
  }
  const Rights needed = wanted.rights | security::kRightAdmit;
  if (!options.admissions->snapshot()->may(options.identity->id(), needed, now))
    return Error{ErrorCode::permission_denied,
                 "this node may not let in others that may " + security::to_text(wanted.rights) +
                     ": make the token on a node that may; `gpunode nodes` tells who may what"};
  const auto cluster = options.cluster->read();
  if (const NodeInfo* own = cluster->own()) wanted.endpoints = own->join_endpoints;
  if (wanted.endpoints.empty())
    return Error{ErrorCode::wrong_state,
                 "this node only dials, so strangers cannot knock here: "
                 "make the token on another node"};
  auto token =
      options.tokens->create(wanted, options.admissions->cluster(), *options.identity, now);
  if (!token) return token.error();
  const std::string rights = security::to_text(wanted.rights);
  if (auto noted = note(options, now, "token_created",
                        {{"token", to_hex(token->id)},
                         {"uses", std::to_string(wanted.uses)},
                         {"rights", rights},
                         {"label", wanted.label}});
      !noted)
    return noted.error();
  return json{{"token", token->text()}, {"id", to_hex(token->id)},
              {"uses", wanted.uses},    {"ttl_seconds", wanted.term.count()},
              {"roles", rights},        {"endpoints", wanted.endpoints}};
}

Result<json> list_tokens(const AdmissionOptions& options, WallTime now) {
  json tokens = json::array();
  for (const security::TokenId& id : options.tokens->open(now)) {
    const security::StoredToken& token = *options.tokens->find(id);
    tokens.push_back(
        {{"id", to_hex(id)},
         {"label", token.label},
         {"roles", security::to_text(token.rights)},
         {"uses_left", token.uses - token.used},
         {"ends_in_seconds", std::chrono::duration<double>(token.expires - now).count()}});
  }
  return json{{"tokens", std::move(tokens)}};
}

Result<json> revoke_token(const AdmissionOptions& options, const json& arguments, WallTime now) {
  const auto word = field<std::string>(arguments, "token", "");
  std::vector<security::TokenId> found;
  for (const security::TokenId& id : options.tokens->open(now))
    if (begins(to_hex(id), word) || options.tokens->find(id)->label == word) found.push_back(id);
  if (found.empty())
    return Error{ErrorCode::not_found, "this node has no open token '" + word +
                                           "': `gpunode token ls` lists those it made; a token is "
                                           "revoked where it was made"};
  if (found.size() > 1) {
    std::string ids;
    for (const security::TokenId& id : found)
      ids += (ids.empty() ? "" : ", ") + to_hex(id).substr(0, 8);
    return Error{ErrorCode::invalid_argument,
                 "'" + word + "' may be token " + ids + ": give more of the id"};
  }
  if (auto done = options.tokens->revoke(found.front()); !done) return done.error();
  const std::string id = to_hex(found.front());
  if (auto noted = note(options, now, "token_revoked", {{"token", id}}); !noted)
    return noted.error();
  return json{{"id", id}};
}

Result<json> revoke_node(const AdmissionOptions& options, const json& arguments, WallTime now,
                         security::Credentials& added) {
  const auto node = node_of(options, field<std::string>(arguments, "node", ""));
  if (!node) return node.error();
  const bool with_admitted = field<bool>(arguments, "with_admitted", false);
  auto done = options.admissions->revoke(*options.identity,
                                         {*node, field<std::string>(arguments, "reason", ""),
                                          with_admitted, field<bool>(arguments, "restore", false)},
                                         now);
  if (!done) return done.error();
  added.revocations = std::move(done->orders);
  const auto cluster = options.cluster->read();
  const auto hears = [&](const NodeInfo& one) {
    return one.id != cluster->self && one.id != *node && one.lives();
  };
  return json{{"id", node->text()},
              {"told", std::ranges::count_if(cluster->nodes, hears)},
              {"name", cluster->name_of(*node)},
              {"with_admitted", with_admitted},
              {"kept", added.revocations.front().kept.size()},
              {"renewed", added.revocations.size() - 1},
              {"back", done->back},
              {"silenced", done->silenced}};
}

Result<json> rotate_keys(const AdmissionOptions& options, WallTime now, NewKey& newest,
                         security::Credentials& added) {
  const auto cluster = options.cluster->read();
  const NodeId own = options.identity->id();
  std::size_t here = 0, away = 0;
  options.admissions->snapshot()->for_each([&](const NodeId& node, const security::Standing& one) {
    if (node != own && one.is_member(now)) ++(cluster->alive(node) ? here : away);
  });
  if (here == 0 && away > 0)
    return Error{ErrorCode::wrong_state,
                 "no other node is up: those that are away (" + std::to_string(away) +
                     ") would not know this node by its new key. Start one of them first, or put "
                     "them out (`gpunode node revoke`)"};
  // Others know a node by its key or the one before that, so of two in a hurry they might know neither.
  if (here > 0 && newest != NewKey::heard)
    return Error{
        ErrorCode::wrong_state,
        "the key before this one is still being told to the others: try again in a moment"};
  if (auto done = options.identity->rotate(*options.files, options.state_directory); !done)
    return done.error();
  newest = NewKey::told;
  const security::LinkKey& key = options.identity->link_key();
  added.link_keys.push_back(key);
  if (auto merged = options.admissions->merge(added); !merged) return merged.error();
  // A request to join is sealed to the key of its token.
  std::size_t ended = 0;
  for (const security::TokenId& id : options.tokens->open(now)) {
    if (auto done = options.tokens->revoke(id); !done) return done.error();
    ++ended;
  }
  if (auto noted = note(options, now, "keys_rotated", {{"epoch", std::to_string(key.epoch)}});
      !noted)
    return noted.error();
  return json{{"epoch", key.epoch}, {"told", here}, {"tokens_ended", ended}};
}

Result<json> refound(const AdmissionOptions& options, const json& arguments, WallTime now,
                     security::Credentials& added) {
  const auto key = security::RecoveryKey::load(*options.files,
                                               field<std::string>(arguments, "recovery_key", ""));
  if (!key) return key.error();
  security::Admissions::RefoundOrder order;
  order.self = options.identity->id();
  order.sign_key = options.identity->sign_key();
  order.name = options.name;
  order.with_admitted = field<bool>(arguments, "with_admitted", false);
  order.check = field<bool>(arguments, "check", false);
  std::istringstream words(field<std::string>(arguments, "without", ""));
  for (std::string word; std::getline(words, word);) {
    const auto node = node_of(options, word);
    if (!node) return node.error();
    order.without.push_back(*node);
  }
  const auto before = options.admissions->snapshot();
  auto done = options.admissions->refound(*key, order, now);
  if (!done) return done.error();
  json nodes = json::array();
  const auto tell = [&](const std::vector<NodeId>& which, const char* becomes) {
    for (const NodeId& node : which) {
      const security::Standing* standing = done->list->find(node);
      if (!standing) standing = before->find(node);
      if (!standing) continue;
      json admitted_by = json::array();
      for (const security::Admission& one : standing->admissions)
        admitted_by.push_back(one.issuer == key->signer().id() ? "the recovery key"
                                                               : name_of(options, one.issuer));
      nodes.push_back({{"id", node.text()},
                       {"name", name_of(options, node)},
                       {"becomes", becomes},
                       {"roles", security::to_text(standing->rights(now))},
                       {"admitted_by", std::move(admitted_by)}});
    }
  };
  std::erase_if(done->members, [&](const NodeId& node) {
    return std::ranges::find(done->restored, node) != done->restored.end();
  });
  tell(done->put_out, "put_out");
  tell(done->dropped, "dropped");
  tell(done->restored, "restored");
  tell(done->members, "member");
  if (!order.check) {
    added = std::move(done->added);
    if (auto noted = note(options, now, "cluster_refounded",
                          {{"put_out", ids_of(done->put_out)},
                           {"dropped", ids_of(done->dropped)},
                           {"restored", ids_of(done->restored)}});
        !noted)
      return noted.error();
  }
  return json{{"check", order.check}, {"nodes", std::move(nodes)}};
}

std::vector<NodeId> changed_by(const security::Credentials& added) {
  if (!added.revocations.empty()) return {};
  std::vector<NodeId> nodes;
  for (const security::Admission& one : added.admissions) nodes.push_back(one.node);
  for (const security::LinkKey& one : added.link_keys) nodes.push_back(one.node);
  return nodes;
}

}  // namespace gpunode::node
