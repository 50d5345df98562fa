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

}  // namespace gpunode::node
