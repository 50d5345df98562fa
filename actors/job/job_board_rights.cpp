// Whose jobs and orders count at this node (job_rights.hpp), as the job board asks for it.
#include <algorithm>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/json_answer.hpp"

namespace gpunode::jobs::board {

std::optional<job::SignedOrder> order_in(const nlohmann::json& arguments) {
  const auto order = job::decode_order(from_hex(field<std::string>(arguments, "order", "")));
  return order ? std::optional(*order) : std::nullopt;
}

Result<void> may_begin(Self* self, const job::JobSpec& spec) {
  const JobBoardOptions& options = self->state.options;
  return check_owner(*options.authority, *options.cluster->read(), spec);
}

bool is_ordered(Self* self, const job::JobSpec& spec, const JobId& id,
                const job::SignedOrder& order) {
  const JobBoardOptions& options = self->state.options;
  return check_order(*options.authority, *options.cluster->read(), spec, id, order,
                     options.environment->options().clock->wall())
      .has_value();
}

std::string ordered(Self* self, const Command& command, const JobId& id) {
  nlohmann::json arguments = arguments_of(command.arguments);
  const auto from = resumed_from(command.name, arguments);
  const job::OrderKind kind = command.name == "job.stop"      ? job::OrderKind::stop
                              : command.name == "job.recover" ? job::OrderKind::recover
                              : from                          ? job::OrderKind::resume_from
                                                              : job::OrderKind::resume;
  const job::SignedOrder order =
      signed_order(*self->state.options.authority,
                   {.job = id,
                    .kind = kind,
                    .step = from.value_or(0),
                    .anew = field<bool>(arguments, "anew", false)},
                   self->state.options.environment->options().clock->wall());
  arguments["order"] = to_hex(job::encode(order));
  return text_of(arguments);
}

bool is_proven(Self* self, const JobId& id, const HeardHint& heard) {
  const Job* job = job_at(self, id);
  if (heard.hint.reason == kStarted)  // those that held it say so
    return !job || (job->waiting && std::ranges::find(job->waiting->holders, heard.from) !=
                                        job->waiting->holders.end());
  const auto order = job::decode_order(heard.hint.removal);
  if (!order || order->kind != job::OrderKind::remove) return false;
  job::JobSpec of;  // of one that is not here its name and owner play no part
  of.submitter = order->by;
  return is_ordered(self, job ? job->spec : of, id, *order);
}

}  // namespace gpunode::jobs::board
