// Whose jobs and orders count at this node (job_rights.hpp), as the job board asks for it.
#include <algorithm>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/json_answer.hpp"

namespace gpunode::jobs::board {

namespace {

view::OrderKind kind_of(const std::string& command, bool from_step) {
  if (command == "job.stop") return view::OrderKind::stop;
  if (command == "job.recover") return view::OrderKind::recover;
  return from_step ? view::OrderKind::resume_from : view::OrderKind::resume;
}

}  // namespace

Result<void> may_carry_out(Self* self, const Command& command, const JobId& id) {
  const nlohmann::json arguments = arguments_of(command.arguments);
  const auto order = order_in(arguments);
  const auto from = resumed_from(command.name, arguments);
  if (!order || order->kind != kind_of(command.name, from.has_value()) ||
      order->step != from.value_or(0) || order->anew != field<bool>(arguments, "anew", false))
    return {ErrorCode::permission_denied, "what is to be done is not what was ordered"};
  return is_ordered(self, self->state.jobs.at(id).spec, id, *order);
}

Result<void> takes_part(Self* self) {
  const security::Authority& authority = *self->state.options.authority;
  if (authority.may(authority.self, security::kRightCompute)) return {};
  return {ErrorCode::permission_denied, "this node takes no part in jobs: it has the roles " +
                                            security::to_text(authority.rights(authority.self)) +
                                            ", and not compute"};
}

Result<void> may_begin(Self* self, const job::JobSpec& spec) {
  const JobBoardOptions& options = self->state.options;
  return check_owner(*options.authority, *options.cluster->read(), spec);
}

Result<void> is_ordered(Self* self, const job::JobSpec& spec, const JobId& id,
                        const view::SignedOrder& order) {
  const JobBoardOptions& options = self->state.options;
  return check_order(*options.authority, *options.cluster->read(), spec, id, order,
                     options.environment->options().clock->wall());
}

std::set<NodeId> parts_of(const Job& job) {
  std::set<NodeId> parts(job.spec.candidates.begin(), job.spec.candidates.end());
  parts.insert(job.progress.members.begin(), job.progress.members.end());
  parts.insert(job.spec.submitter);
  return parts;
}

bool has_part(const Job& job, const NodeId& node) {
  return parts_of(job).contains(node);
}

bool is_holder(const Job& job, const NodeId& node) {
  return job.waiting && std::ranges::find(job.waiting->holders, node) != job.waiting->holders.end();
}

Result<void> may_look(Self* self, const Job& job, const NodeId& by) {
  if (has_part(job, by)) return {};
  const JobBoardOptions& options = self->state.options;
  return may_read(*options.authority, *options.cluster->read(), job.spec, by);
}

std::string ordered(Self* self, const Command& command, const JobId& id) {
  nlohmann::json arguments = arguments_of(command.arguments);
  const auto from = resumed_from(command.name, arguments);
  const view::SignedOrder order =
      signed_order(*self->state.options.authority,
                   {.job = id,
                    .kind = kind_of(command.name, from.has_value()),
                    .step = from.value_or(0),
                    .anew = field<bool>(arguments, "anew", false)},
                   self->state.options.environment->options().clock->wall());
  arguments["order"] = to_hex(view::encode(order));
  return text_of(arguments);
}

bool is_proven(Self* self, const JobId& id, const HeardHint& heard) {
  const Job* job = job_at(self, id);
  if (heard.hint.reason == kStarted)  // those that held it say so
    return !job || is_holder(*job, heard.from);
  const auto order = view::decode_order(heard.hint.removal);
  if (!order || order->kind != view::OrderKind::remove) return false;
  job::JobSpec of;  // of one that is not here its name and owner play no part
  of.submitter = order->by;
  // It is told again and again, and by others than who signed it: no refusal is counted for that.
  const JobBoardOptions& options = self->state.options;
  if (!may_order(*options.authority, *options.cluster->read(), heard.hint.name,
                 (job ? job->spec : of).submitter, order->by))
    return false;
  return is_ordered(self, job ? job->spec : of, id, *order).has_value();
}

Command with_outcome(Self* self, const Command& command, const JobId& id, const NodeId& by) {
  Command noted = command;
  noted.answer = [=, board = caf::actor(self), name = command.name,
                  answer = command.answer](const std::string& text) {
    if (const nlohmann::json told = arguments_of(text); !told.value("ok", false))
      caf::anon_send(
          board, Request{[=] {
            if (self->state.jobs.contains(id))
              audit_job(
                  self, id, "job_order_refused",
                  {{"order", name},
                   {"asked_at", by.text()},
                   {"reason", told.value("error", nlohmann::json::object()).value("detail", "")}},
                  [](const auto&) {});
          }});
    answer(text);
  };
  return noted;
}

}  // namespace gpunode::jobs::board
