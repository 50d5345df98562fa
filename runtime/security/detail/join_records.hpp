// Encoding of the join schema's records; the bodies are in join_codec.cpp, the one file of this
// folder that sees generated headers. Included by .cpp files of this folder only.
#pragma once

#include <map>

#include "runtime/security/join_protocol.hpp"

namespace gpunode::security::detail {

Bytes encode_record(const JoinRecord& record);
Result<JoinRecord> decode_record(ByteView bytes);
bool in_bounds(const JoinRecord& record);

// The part of an answer that the issuer signs; its detail is cut to 512 bytes.
Bytes encode_answer_body(const JoinAnswer& answer);
Result<JoinAnswer> decode_answer_body(ByteView bytes);

Bytes encode_tokens(const std::map<TokenId, StoredToken>& tokens);
Result<std::map<TokenId, StoredToken>> decode_tokens(ByteView bytes);

}  // namespace gpunode::security::detail
