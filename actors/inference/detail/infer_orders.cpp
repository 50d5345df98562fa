#include "actors/inference/detail/infer_orders.hpp"

#include <caf/send.hpp>

#include <algorithm>

#include "actors/inference/detail/model_actor.hpp"
#include "actors/inference/detail/model_book.hpp"
#include "actors/inference/detail/text_orders.hpp"
#include "actors/json_answer.hpp"

namespace gpunode::inference {
namespace {

constexpr auto kDescribeTimeout = std::chrono::seconds(30);

Result<InferMessage> answer_in(const Result<SharedBytes>& bytes, const std::string& model,
                               bool known) {
  if (!bytes) return failure_of(bytes.error(), model, known);
  auto message = decode_infer(bytes->view);
  const bool is_answer = message && (std::holds_alternative<InferAnswer>(*message) ||
                                     std::holds_alternative<InferDescription>(*message));
  if (!is_answer) return no_answer();
  return message;
}

}  // namespace

void order_infer(const ClusterState& state, const std::function<void(CallRequest)>& call,
                 InferOrder order) {
  const bool known = is_offered(*state.read(), order.model);
  const PlaceWait place = wait_for_place(known);
  if (auto* request = std::get_if<InferRequest>(&order.request))
    request->timeout_ms = static_cast<std::uint32_t>(order.timeout.count());
  call({.to = {},
        .name = call_name(order.model),
        .request = SharedBytes::from(encode_infer(order.request)),
        .timeout = order.timeout,
        .done =
            [&state, model = order.model, known, held = place.held,
             done = std::move(order.done)](const Result<SharedBytes>& bytes) {
              done(answer_in(bytes, model, known || is_offered(*state.read(), model)));
            },
        .may_repeat = true,
        .elsewhere_if_refused = true,
        .placed_within = place.longest});
}

InferOrder describe_order_of(const Command& command) {
  const auto model = field<std::string>(arguments_of(command.arguments), "model", "");
  return {.model = model,
          .request = InferDescribe{},
          .timeout = kDescribeTimeout,
          .done = [model, answer = command.answer](const Result<InferMessage>& told) {
            if (!told) return answer(error_json(told.error()));
            const auto* description = std::get_if<InferDescription>(&*told);
            if (!description) return answer(error_json(no_answer()));
            auto inputs = nlohmann::json::array();
            for (const TensorForm& form : description->inputs)
              inputs.push_back({{"name", form.name}, {"shape", form.shape}});
            answer(ok_json({{"model", model},
                            {"platform", description->platform},
                            {"inputs", std::move(inputs)}}));
          }};
}

void pass_infer(const Replica& to, const ServingOptions& options, PassedInfer passed) {
  const Clock& clock = *options.clock;
  const CallReply& reply = passed.reply;
  auto message = decode_infer(passed.request);
  if (!message) return reply(message.error());
  const auto* tensors = std::get_if<InferRequest>(&*message);
  if (const auto* describe = std::get_if<InferDescribe>(&*message)) {
    const auto known =
        describe->probe ? options.pulses->known(to.pulse, clock.now()) : std::nullopt;
    if (known && *known) return reply(SharedBytes::from(encode_infer(InferDescription{})));
    if (known) return reply(known->error().within("probe"));
    // Ahead of those that wait: whoever asks for it wants to know whether they are answered.
    return caf::anon_send<caf::message_priority::high>(
        to.model, Infer{*std::move(message), clock.now(), reply});
  }
  if (!tensors) return reply(Error{ErrorCode::invalid_argument, "not a request"});
  const Time deadline =
      answer_by_of(reply, clock.now(), std::chrono::milliseconds(tensors->timeout_ms));
  if (to.desk && to.desk->is_open())
    return to.desk->ask(*tensors, passed.from.text(), deadline, told_by(reply));
  caf::anon_send(to.model, Infer{*std::move(message), deadline, reply});
}

}  // namespace gpunode::inference
