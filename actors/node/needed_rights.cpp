#include "actors/node/needed_rights.hpp"

#include <algorithm>
#include <array>

namespace gpunode::node {
namespace {

using security::Rights;
constexpr Rights kCompute = security::kRightCompute, kSubmit = security::kRightSubmit,
                 kServe = security::kRightServe, kCall = security::kRightCall,
                 kAdmit = security::kRightAdmit, kOperate = security::kRightOperate,
                 kObserve = security::kRightObserve;
// Whoever may have to do with a job at all.
constexpr Rights kOfJobs = kCompute | kSubmit | kOperate | kObserve;

constexpr std::array kNeeded{
    NeededRights{Asked::topic, "membership", 0, Load::gossip},
    NeededRights{Asked::topic, "directory", 0, Load::directory},
    NeededRights{Asked::topic, "admission", 0, Load::admission},
    // A call counts by its name; a reply to what was not asked is thrown away unread.
    NeededRights{Asked::topic, "call", 0, Load::none},
    NeededRights{Asked::topic, "reply", 0, Load::none},
    NeededRights{Asked::topic, "job", kCompute, Load::job},

    // A job that waited is started by a node that holds it, under its owner's signature.
    NeededRights{Asked::call, "job.fitness", kSubmit | kCompute, Load::work},
    NeededRights{Asked::call, "job.create", kSubmit | kCompute, Load::work},
    NeededRights{Asked::call, "job.begin", kSubmit | kCompute, Load::question},
    NeededRights{Asked::call, "job.refused", kSubmit | kCompute, Load::question},
    NeededRights{Asked::call, "job.witness", kCompute, Load::work},
    NeededRights{Asked::call, "job.manifest", kCompute, Load::question},
    NeededRights{Asked::call, "job.history", kCompute, Load::question},
    NeededRights{Asked::call, "job.phase", kOfJobs, Load::question},
    NeededRights{Asked::call, "job.spans", kOfJobs, Load::question},
    NeededRights{Asked::call, "job.clock", kOfJobs, Load::question},
    NeededRights{Asked::call, "job.command", kOfJobs, Load::work},
    NeededRights{Asked::call, "job.remove", kSubmit | kOperate, Load::work},
    // By who was asked for a text: a piece of it.
    NeededRights{Asked::call, "generate.piece", kServe, Load::service},
    // By who is to serve a model too: its weights.
    NeededRights{Asked::call, "model.copy", kServe, Load::service},
    // By who serves the first part of a model: to open another part, and the rows of each pass.
    NeededRights{Asked::call, "model.part", kServe, Load::service},
    NeededRights{Asked::call, "queue.keep", kSubmit, Load::work},
    NeededRights{Asked::call, "queue.promise", kSubmit | kCompute, Load::question},
    NeededRights{Asked::call, "queue.accept", kSubmit | kCompute, Load::question},
    NeededRights{Asked::call, "queue.started", kSubmit | kCompute, Load::question},

    NeededRights{Asked::command, "node.info", 0},
    NeededRights{Asked::command, "nodes", 0},
    NeededRights{Asked::command, "devices", 0},
    NeededRights{Asked::command, "device.drain", 0},
    NeededRights{Asked::command, "device.resume", 0},
    NeededRights{Asked::command, "metrics", 0},
    NeededRights{Asked::command, "stop", 0},
    NeededRights{Asked::command, "leave", 0},
    NeededRights{Asked::command, "token.create", kAdmit},
    NeededRights{Asked::command, "token.ls", kAdmit},
    NeededRights{Asked::command, "token.revoke", kAdmit},
    NeededRights{Asked::command, "node.revoke", kOperate},
    NeededRights{Asked::command, "keys.rotate", 0},      // the node's own
    NeededRights{Asked::command, "cluster.refound", 0},  // the recovery key stands above all rights
    NeededRights{Asked::command, "train", kSubmit},
    NeededRights{Asked::command, "jobs", 0},
    NeededRights{Asked::command, "job.find", 0},
    // What is of this node is its owner's to read; what others tell of a job is theirs to decide.
    NeededRights{Asked::command, "job.show", 0},
    NeededRights{Asked::command, "job.progress", 0},
    NeededRights{Asked::command, "job.log", 0},
    NeededRights{Asked::command, "job.trace", 0},
    NeededRights{Asked::command, "job.stop", kSubmit | kOperate},
    // Also has this node take part again where its part has failed.
    NeededRights{Asked::command, "job.resume", kSubmit | kOperate | kCompute},
    NeededRights{Asked::command, "job.recover", kSubmit | kOperate},
    NeededRights{Asked::command, "job.rm", kSubmit | kOperate},
    NeededRights{Asked::command, "checkpoint.rm", 0},
    NeededRights{Asked::command, "models", 0},
    NeededRights{Asked::command, "serve", kServe},
    NeededRights{Asked::command, "unserve", kServe},
    NeededRights{Asked::command, "generate", kCall},
    NeededRights{Asked::command, "model.describe", kCall},
};

constexpr std::array<std::string_view, 4> kReserved{"job.", "queue.", "generate.", "model."};

// Whether only the runtime itself publishes it.
bool is_reserved(std::string_view name) {
  return std::ranges::any_of(kReserved,
                             [&](std::string_view begin) { return name.starts_with(begin); });
}

std::string one_of(Rights rights) {
  std::string text;
  for (Rights bit = 1; bit <= security::kAllRights; bit <<= 1)
    if (rights & bit) text += (text.empty() ? "" : " or ") + security::to_text(bit);
  return text;
}

const NeededRights* row_of(Asked kind, std::string_view name) {
  const auto row = std::ranges::find_if(
      kNeeded, [&](const NeededRights& one) { return one.kind == kind && one.name == name; });
  return row == kNeeded.end() ? nullptr : &*row;
}

}  // namespace

std::span<const NeededRights> needed_rights() {
  return kNeeded;
}

Result<void> may_ask(Asked kind, std::string_view name, Rights held) {
  const NeededRights* row = row_of(kind, name);
  if (!row && (kind != Asked::call || is_reserved(name)))
    return Error{ErrorCode::not_found, "nothing is named '" + std::string(name) + "'"};
  const Rights any_of = row ? row->any_of : kCall;
  if (any_of == 0 || (held & any_of) != 0) return {};
  return Error{ErrorCode::permission_denied,
               "'" + std::string(name) + "' needs the role " + one_of(any_of) +
                   ", and the node that asks for it has " + security::to_text(held) +
                   ": roles are given by the token with which a node joins (`gpunode token create "
                   "--role`); `gpunode nodes` tells who has which"};
}

Load load_of(Asked kind, std::string_view name) {
  if (const NeededRights* row = row_of(kind, name)) return row->load;
  return is_reserved(name) ? Load::question : Load::service;
}

}  // namespace gpunode::node
