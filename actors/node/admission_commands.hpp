// What a person orders of tokens and of who may be in the cluster. Plain functions over what the
// admission actor holds, called by it alone; each order is in the audit log before it is answered.
#pragma once

#include <nlohmann/json.hpp>

#include "actors/node/admission_actor.hpp"

namespace gpunode::node {

// {ttl_seconds, uses, roles, label}. Fails with permission_denied (this node may not let in others,
// or lacks a right that it is to give), wrong_state (nobody can knock at a node that only dials),
// and as TokenBook::create does.
Result<nlohmann::json> create_token(const AdmissionOptions& options,
                                    const nlohmann::json& arguments, security::WallTime now);

// Those that this node made and that somebody could still join with.
Result<nlohmann::json> list_tokens(const AdmissionOptions& options, security::WallTime now);

// {token}: its id, its label, or the first characters of its id. Fails with not_found,
// invalid_argument (several begin so).
Result<nlohmann::json> revoke_token(const AdmissionOptions& options,
                                    const nlohmann::json& arguments, security::WallTime now);

// {node, reason, with_admitted}: puts a node out, named or by the first characters of its id;
// `added` is what the others are to be told. Fails as Admissions::revoke does, and with
// invalid_argument (several nodes are meant).
Result<nlohmann::json> revoke_node(const AdmissionOptions& options, const nlohmann::json& arguments,
                                   security::WallTime now, security::Credentials& added);

// What became of this node's newest link key: told to the others, used for new sessions, and heard by one that
// has come up since, to whom it was told once more.
enum class NewKey { told, in_use, heard };

// {}: this node's links take a new key; tokens that were made under the old one end. `newest`: the one before;
// then of this one. Fails with wrong_state (no other node is here to pass it on to those that are away; the one
// before is not heard yet), io_error, disk_full.
Result<nlohmann::json> rotate_keys(const AdmissionOptions& options, security::WallTime now,
                                   NewKey& newest, security::Credentials& added);

// {recovery_key, without, with_admitted, check}: a new start from the recovery key in a file, without the
// nodes that are named, a line each. Fails as Admissions::refound and RecoveryKey::load do.
Result<nlohmann::json> refound(const AdmissionOptions& options, const nlohmann::json& arguments,
                               security::WallTime now, security::Credentials& added);

// Of which nodes these change what counts; empty: of any, as who is put out may take others along, and a
// new start changes all.
std::vector<NodeId> changed_by(const security::Credentials& added);

}  // namespace gpunode::node
