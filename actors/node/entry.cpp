#include "actors/node/entry.hpp"

#include <unistd.h>

#include <algorithm>

#include "actors/node/advertised.hpp"
#include "actors/node/data_offers.hpp"
#include "actors/node/detail/devices.hpp"
#include "actors/node/endpoints.hpp"
#include "actors/node/http_access.hpp"
#include "actors/node/joining.hpp"
#include "actors/node/local_address.hpp"
#include "actors/node/member_list.hpp"
#include "actors/node/peer_limits.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/membership/membership_codec.hpp"
#include "runtime/security/recovery_key.hpp"
#include "runtime/storage/checksum.hpp"
#include "runtime/storage/durable_record.hpp"
#include "runtime/transport/mesh_link.hpp"

namespace gpunode::node {

namespace {

constexpr storage::RecordFormat kBoot{{'B', 'O', 'O', 'T'}, 1}, kPeers{{'P', 'E', 'E', 'R'}, 1};
// Nodes that join by the dozen cost one write of the head a second.
constexpr security::AuditLog::Limits kAuditLimits{.head_every = std::chrono::seconds(1)};

// The number of this life of the node: one more than the last, on disk before it is used.
Result<Boot> raise_boot(const storage::StateDirectory& state) {
  storage::DurableRecord record(state.files(), state.within("boot"), kBoot);
  auto stored = record.load();
  if (!stored) return stored.error();
  Boot boot = 1;
  if (*stored) {
    if ((*stored)->size() != sizeof boot)
      return Error{ErrorCode::corrupted, record.path().string() + " is not a boot record"};
    std::memcpy(&boot, (*stored)->data(), sizeof boot);
    ++boot;
  }
  if (auto done = record.store(std::as_bytes(std::span(&boot, 1))); !done) return done.error();
  return boot;
}

// The last known peers.
storage::DurableRecord peers_of(const storage::StateDirectory& state) {
  return {state.files(), state.within("peers"), kPeers};
}

std::string host_name() {
  char buffer[256] = {};
  if (gethostname(buffer, sizeof buffer - 1) != 0 || buffer[0] == 0) return "node";
  return std::string(buffer).substr(0, membership::kMaxNameBytes);
}

// What others will show in their logs and tables; they drop a record that is not so.
Result<void> check_text(const char* what, const std::string& text, std::size_t longest) {
  auto wrong = [&](const std::string& cause, const std::string& remedy) {
    return Error{ErrorCode::invalid_argument, std::string(what) + " " + cause + ": " + remedy};
  };
  if (text.size() > longest)
    return wrong("has " + std::to_string(text.size()) + " bytes",
                 "give at most " + std::to_string(longest));
  if (!membership::is_plain_text(text))
    return wrong("holds a control character or is no UTF-8", "use printable text");
  return {};
}

}  // namespace

transport::LinkKeys link_keys_of(const security::Identity& identity) {
  const auto pair = [](const security::CurveKey& open, ByteView secret) {
    transport::CurveKeyPair keys{open.value, {}};
    std::ranges::copy(secret, keys.secret.begin());
    return keys;
  };
  transport::LinkKeys keys{pair(identity.curve_key(), identity.curve_secret().view())};
  if (const auto& before = identity.curve_before())
    keys.before = pair(before->open, before->secret.view());
  return keys;
}

Result<void> check_config(const NodeConfig& config) {
  if (config.state_directory.empty())
    return Error{ErrorCode::invalid_argument, "a node needs a state directory"};
  if (auto good = check_text("the node's name", config.name, membership::kMaxNameBytes); !good)
    return good.error();
  if (config.labels.size() > membership::kMaxLabels)
    return Error{ErrorCode::invalid_argument,
                 "a node carries at most " + std::to_string(membership::kMaxLabels) + " labels"};
  for (const std::string& label : config.labels)
    if (auto good = check_text("a label", label, membership::kMaxLabelBytes); !good)
      return good.error();
  if (!config.metrics.empty())
    if (auto place = parse_local_address("--metrics", config.metrics); !place) return place.error();
  if (!config.http.empty())
    if (auto place = http_place(config); !place) return place.error();
  if (config.threads < 0 || config.threads > 1024)
    return Error{ErrorCode::invalid_argument, "threads is " + std::to_string(config.threads) +
                                                  ": 1 to 1024, or 0 for one a core"};
  if (config.handler_threads == 0 || config.handler_queue == 0)
    return Error{ErrorCode::invalid_argument,
                 "handler_threads and handler_queue are at least 1: no call would be answered"};
  if (config.device_timeout <= std::chrono::milliseconds(0))
    return Error{ErrorCode::invalid_argument,
                 "device_timeout is " + std::to_string(config.device_timeout.count()) +
                     " ms: a device needs some time to show that it gets on"};
  if (auto devices = parse_devices(config.device); !devices) return devices.error();
  if (auto listen = listen_endpoints(config.listen); !listen) return listen.error();
  if (auto allowed = IpRanges::parse(config.allow); !allowed)
    return allowed.error().within("allow");
  if (auto offers = parse_offers(config.data_sets); !offers) return offers.error();
  return {};
}

namespace {

// The cluster's recovery key is on disk before the cluster is.
Result<security::ClusterIdentity> found(const Entry& entry) {
  storage::FileSystem& files = entry.state.files();
  const storage::Path path = entry.state.within(kRecoveryKeyFile);
  const auto recovery = security::RecoveryKey::load_or_create(files, path);
  if (!recovery) return recovery.error();
  auto cluster = security::ClusterIdentity::init(files, entry.state.path(), entry.identity,
                                                 recovery->public_key());
  if (cluster)
    log::info("node", "founded a cluster; its recovery key is in " + path.string() +
                          ": move it to a safe place off this machine. Whoever has it can found "
                          "the cluster anew (`gpunode cluster refound`), and nobody else can once "
                          "this node is lost");
  return cluster;
}

Result<void> open_link(Entry& entry, const NodeConfig& config, const NodeParts& parts,
                       const Addresses& listen, Router& router, Addresses& bound) {
  transport::LinkEvents events{
      [&router](const NodeId& from, transport::Lane lane, transport::Message message) {
        router.on_message(from, lane, std::move(message));
      },
      [&router](const NodeId& peer, transport::Lane lane, LinkState state) {
        router.on_state(peer, lane, state);
      },
      [](const NodeId& peer, std::uint16_t theirs, std::uint16_t ours) {
        log::error("node", "node " + peer.short_text() + " speaks version " +
                               std::to_string(theirs) + " of the link protocol and this node " +
                               std::to_string(ours) +
                               ": they cannot work together; install the same version of gpunode "
                               "on both");
      },
      [&router](const NodeId& from, const transport::MessageHead& head) {
        return router.place_of(from, head);
      },
      [&router](const NodeId& from) { return router.may_read(from); },
      [offenders = entry.offenders](const NodeId& from, transport::Dropped why) {
        offenders->offended(from, offence_of(why));
      }};
  if (parts.open_link) {
    entry.link = parts.open_link(entry.identity.id(), entry.boot, std::move(events));
    bound.control = bound.bulk = {"memory://" + entry.identity.id().text()};
    return {};
  }
  transport::MeshLinkOptions options;
  options.node = entry.identity.id();
  options.boot = entry.boot;
  const transport::LinkKeys keys = link_keys_of(entry.identity);
  options.curve_public_key = keys.now.open;
  options.curve_secret_key = keys.now.secret;
  options.curve_before = keys.before;
  options.control_listen = listen.control;
  options.bulk_listen = listen.bulk;
  options.bulk_plain = config.bulk_plain;
  options.allowed = *IpRanges::parse(config.allow);
  options.admit = [allowed = entry.allowed, offenders = entry.offenders,
                   clock = parts.clock](const transport::CurveKey& key) -> transport::KeyVerdict {
    security::Admissions* admissions = allowed->load();
    if (!admissions) return {};
    auto snapshot = admissions->snapshot();
    const NodeId* owner = snapshot->owner_of(security::CurveKey{key});
    if (!owner) return {};
    if (snapshot->find(*owner)->revoked) return {transport::KeyVerdict::Answer::revoked, *owner};
    if (!snapshot->is_member(*owner, clock->wall()) || offenders->is_put_off(*owner)) return {};
    return {transport::KeyVerdict::Answer::accepted, *owner};
  };
  auto link = transport::MeshLink::open(std::move(options), std::move(events));
  if (!link) return link.error();
  bound.control = (*link)->control_endpoints();
  bound.bulk = (*link)->bulk_endpoints();
  entry.link = std::move(*link);
  return {};
}

Result<void> open_join_port(Entry& entry, const NodeConfig& config, const Addresses& listen,
                            Router& router, Addresses& bound) {
  if (listen.join.empty()) return {};
  transport::JoinSocket::Callbacks callbacks;
  callbacks.on_frame = [&router](const std::string& address, Bytes frame,
                                 transport::JoinSocket::Reply reply) {
    router.on_knock(address, std::move(frame), std::move(reply));
  };
  transport::JoinSocket::Limits limits;
  limits.from = *IpRanges::parse(config.allow);
  auto socket =
      transport::JoinSocket::listen(listen.join[0], std::move(callbacks), std::move(limits));
  if (!socket) return socket.error();
  bound.join = {(*socket)->endpoint()};
  entry.join_socket = std::move(*socket);
  return {};
}

// Joins by the token; the answer names the cluster, its members, and whether we can be reached.
Result<security::ClusterIdentity> join(Entry& entry, const NodeConfig& config,
                                       const NodeParts& parts, security::JoinAnswer& answer) {
  if (config.token.empty())
    return Error{ErrorCode::invalid_argument,
                 "joining needs a token: run `gpunode token create` on a member and give it with "
                 "--token-file or GPUNODE_TOKEN"};
  security::JoinRecord record;
  record.name = entry.name;
  // A twin's addresses cannot be dialled back.
  if (!parts.open_link) record.advertised = entry.addresses.control;
  record.must_be_reachable = !config.advertise.empty();
  record.labels = config.labels;
  auto place = parse_host_port(config.join, kDefaultPort + 2);
  if (!place) return place.error().within("join");
  auto joined =
      join_when_let(entry.identity, config.token, record, tcp_endpoint(*place), *parts.clock);
  if (!joined) return joined.error();
  answer = std::move(joined->answer);
  return joined->cluster;
}

// Writes what the answer gave: the cluster's name last, so that a crash before it means to join
// again, and a node that knows its cluster also knows whom to contact.
Result<void> remember_join(Entry& entry, const security::ClusterIdentity& cluster,
                           security::JoinAnswer& answer) {
  if (auto merged = entry.admissions->merge(answer.credentials); !merged) return merged.error();
  if (auto stored = peers_of(entry.state).store(answer.members); !stored) return stored.error();
  return cluster.save(entry.state.files(), entry.state.path());
}

Result<void> open_cluster(Entry& entry, const NodeConfig& config, const NodeParts& parts) {
  storage::FileSystem& files = entry.state.files();
  auto cluster = security::ClusterIdentity::load(files, entry.state.path());
  bool known = cluster.has_value(), founding = false;
  security::JoinAnswer answer;
  if (!known && cluster.error().code != ErrorCode::not_found) return cluster.error();
  if (known && !config.join.empty() && !config.token.empty()) {
    auto token = security::JoinToken::parse(config.token);
    if (!token) return token.error();
    if (token->cluster != *cluster)
      return {ErrorCode::already_exists,
              "other_cluster: state directory " + entry.state.path().string() +
                  " belongs to another cluster than the token: join with another --state "
                  "directory"};
    log::info("node", "already a member of this cluster; the token was not used");
  }
  if (!known && !config.join.empty()) {
    cluster = join(entry, config, parts, answer);
  } else if (!known) {
    cluster = found(entry);
    founding = true;
  }
  if (!cluster) return cluster.error();
  auto admissions = security::Admissions::open(files, entry.state.path(), *cluster);
  if (!admissions) return admissions.error();
  entry.admissions = std::move(*admissions);
  if (founding || (cluster->founder == entry.identity.id() && entry.admissions->all().empty())) {
    auto founded = entry.admissions->found(entry.identity, entry.name, parts.clock->wall());
    if (!founded) return founded.error();
  }
  if (!known && !founding) {
    if (auto done = remember_join(entry, *cluster, answer); !done) return done.error();
    if (!answer.reachable && !entry.addresses.dial_only && !parts.open_link) {
      entry.addresses.dial_only = true;
      log::warning("node", "the cluster cannot reach this node at " +
                               entry.addresses.control.front() + " (" + answer.detail + ")" +
                               ": it goes on dial-only; --advertise names an address that can be "
                               "reached");
    }
  }
  // Where it ended between a new link key and telling of it.
  if (auto told = entry.admissions->merge({{}, {entry.identity.link_key()}, {}}); !told)
    return told.error();
  entry.allowed->store(entry.admissions.get());
  return {};
}

void load_peers(Entry& entry) {
  auto stored = peers_of(entry.state).load();
  if (!stored)
    return log::warning("node", "the list of known peers is lost: " + stored.error().message());
  if (!*stored) return;
  for (membership::MemberRecord& peer : split_records(**stored))
    entry.seeds.push_back(std::move(peer));
}

}  // namespace

Result<std::unique_ptr<Entry>> enter(const NodeConfig& config, const NodeParts& parts,
                                     Router& router) {
  auto listen = listen_endpoints(config.listen);
  if (!listen) return listen.error();
  auto state = storage::StateDirectory::open(*parts.files, config.state_directory);
  if (!state) return state.error();
  auto identity = security::Identity::load_or_create(*parts.files, state->path());
  if (!identity) return identity.error();
  auto entry = std::make_unique<Entry>(std::move(*state), std::move(*identity));
  entry->name = config.name.empty() ? host_name() : config.name;
  entry->offenders = std::make_shared<security::Offenders>(*parts.clock);
  entry->allowed = std::make_shared<std::atomic<security::Admissions*>>(nullptr);
  auto boot = raise_boot(entry->state);
  if (!boot) return boot.error();
  entry->boot = *boot;
  Addresses bound;
  if (auto done = open_link(*entry, config, parts, *listen, router, bound); !done)
    return done.error();
  if (auto done = open_join_port(*entry, config, *listen, router, bound); !done)
    return done.error();
  auto told = advertise(config.listen, config.advertise, bound);
  if (!told) return told.error();
  entry->addresses = std::move(told->addresses);
  entry->look_at_addresses = std::move(told->look);
  if (const std::string open = open_to_all(config.listen, config.allow, own_addresses());
      !open.empty())
    log::warning("node", open);
  if (auto done = open_cluster(*entry, config, parts); !done) return done.error();
  load_peers(*entry);
  auto tokens = security::TokenBook::open(*parts.files, entry->state.path());
  if (!tokens) return tokens.error();
  entry->tokens = std::make_shared<security::TokenBook>(std::move(*tokens));
  auto audit = security::AuditLog::open_or_begin_anew(
      *parts.files, entry->state.path(), entry->identity, parts.clock->wall(), kAuditLimits);
  if (!audit) return audit.error();
  entry->audit = std::make_shared<security::AuditLog>(std::move(*audit));
  entry->witness = std::make_shared<security::AuditWitness>(
      security::AuditWitness::open(*parts.files, entry->state.path()));
  entry->http_audit = std::make_shared<inference::HttpAudit>(*parts.files, entry->state.path());
  return entry;
}

membership::MemberRecord Entry::record(const NodeConfig& config) const {
  membership::MemberRecord record;
  record.id = identity.id();
  record.name = name;
  record.incarnation = {boot, 0};
  record.control_endpoints = addresses.control;
  record.bulk_endpoints = addresses.bulk;
  record.join_endpoints = addresses.join;
  record.sign_key = identity.sign_key().value;
  for (const std::string& label : config.labels) {
    std::size_t equals = label.find('=');
    record.labels[label.substr(0, equals)] =
        equals == std::string::npos ? "" : label.substr(equals + 1);
  }
  record.dial_only = addresses.dial_only;
  return record;
}

security::Authority Entry::authority(const Clock& clock) const {
  const security::Identity* keys = &identity;
  security::Admissions* list = admissions.get();
  return {
      keys->id(),
      [list, now = &clock](const NodeId& node) {
        const auto snapshot = list->snapshot();
        const security::Standing* standing = snapshot->find(node);
        return standing ? standing->rights(now->wall()) : security::Rights{0};
      },
      [keys](std::string_view purpose, ByteView message) { return keys->sign(purpose, message); },
      [list](const NodeId& by, std::string_view purpose, ByteView message,
             const security::Signature& signature) {
        const auto snapshot = list->snapshot();
        const security::Standing* standing = snapshot->find(by);
        return standing && security::verify(standing->sign_key(), purpose, message, signature);
      },
      [counts = refusals](const NodeId& by, std::string_view what) { counts->add(by, what); }};
}

ClusterActorOptions Entry::cluster_options(const NodeConfig& config, ClusterState& state_out,
                                           const Clock& clock) const {
  ClusterActorOptions options;
  options.self = record(config);
  const security::Identity* keys = &identity;
  auto sign = [keys](std::string_view purpose, ByteView message) {
    auto signature = keys->sign(purpose, message);
    return Bytes(signature.begin(), signature.end());
  };
  auto verify = [](const security::SignKey& key, std::string_view purpose, ByteView message,
                   ByteView signature) {
    security::Signature fixed;
    if (signature.size() != fixed.size()) return false;
    std::copy(signature.begin(), signature.end(), fixed.begin());
    return security::verify(key, purpose, message, fixed);
  };
  security::Admissions* list = admissions.get();
  options.record_signing = {[sign](ByteView message) { return sign("member record", message); },
                            [verify](const NodeId& owner, const membership::PublicKey& key,
                                     ByteView message, ByteView signature) {
                              security::SignKey sign_key{key};
                              return security::node_id_of(sign_key) == owner &&
                                     verify(sign_key, "member record", message, signature);
                            },
                            [list, now = &clock](const NodeId& node) {
                              return list->snapshot()->is_member(node, now->wall());
                            }};
  options.directory_signing = {
      [](ByteView bytes) { return storage::sha256_of(bytes).value; },
      [sign](ByteView message) { return sign("directory", message); },
      [verify, list](const NodeId& owner, ByteView message, ByteView signature) {
        auto snapshot = list->snapshot();
        const security::Standing* standing = snapshot->find(owner);
        return standing && !standing->revoked &&
               verify(standing->sign_key(), "directory", message, signature);
      }};
  options.seeds = seeds;
  options.admitted_as = [list, now = &clock](const NodeId& node) -> std::optional<Admitted> {
    const auto snapshot = list->snapshot();
    const security::Standing* standing = snapshot->find(node);
    if (!standing || !standing->curve_key || !standing->is_member(now->wall())) return {};
    return Admitted{standing->curve_key->value, standing->rights(now->wall())};
  };
  options.admitted = [list, one = options.admitted_as] {
    std::map<NodeId, Admitted> admitted;
    list->snapshot()->for_each([&](const NodeId& node, const auto&) {
      if (const auto is = one(node)) admitted.emplace(node, *is);
    });
    return admitted;
  };
  options.look_at_addresses = look_at_addresses;
  options.link = link;
  options.state = &state_out;
  options.clock = &clock;
  options.offenders = offenders;
  options.refusals = refusals;
  options.seed = mix(boot, options.self.id.value[0] == std::byte{} ? 1 : 2);
  options.store_peers = [record = std::make_shared<storage::DurableRecord>(peers_of(state))](
                            const std::vector<membership::MemberRecord>& peers) {
    std::vector<Bytes> encoded;
    for (const auto& peer : peers) encoded.push_back(membership::encode_record(peer));
    if (auto stored = record->store(join_records(encoded)); !stored)
      log::warning("node", "cannot keep the list of known peers: " + stored.error().message());
  };
  return options;
}

}  // namespace gpunode::node
