#include "actors/compute/wire_forms.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "actors/compute/host_workspace.hpp"
#include "runtime/job/exchange_mode.hpp"

namespace gpunode::compute {
namespace {

using collective::WireForm;

std::int64_t length(std::size_t count) {
  return static_cast<std::int64_t>(count);
}

WireForm form_of(ops::Backend& backend, std::function<std::size_t(std::size_t)> bytes,
                 ops::Operation<ops::PackArgs>* pack, ops::Operation<ops::UnpackArgs>* unpack) {
  auto host = open_host_workspace(backend);
  WireForm form;
  form.bytes = std::move(bytes);
  form.encode = [host, pack](std::span<const float> in, MutableByteView out) {
    auto done = pack(*host->stream, host->workspace, {{in.data(), {length(in.size())}}, out});
    GPUNODE_CHECK(done, done.error().message());
  };
  form.decode = [host, unpack](ByteView in, std::span<float> out) {
    auto done = unpack(*host->stream, host->workspace, {in, {out.data(), {length(out.size())}}});
    GPUNODE_CHECK(done, done.error().message());
  };
  return form;
}

void carry_in_int8(ops::Backend& backend, WireForm& form) {
  form.encode_carrying =
      [host = open_host_workspace(backend), pack = backend.operations().pack_int8_carrying](
          std::span<const float> in, const collective::Feedback& with, MutableByteView out) {
        auto done = pack(*host->stream, host->workspace,
                         {.in = {in.data(), {length(in.size())}},
                          .carried = with.carried.empty() ? nullptr : with.carried.data(),
                          .lost = with.lost.data(),
                          .arrives = with.arrives.empty() ? nullptr : with.arrives.data(),
                          .out = out});
        GPUNODE_CHECK(done, done.error().message());
      };
}

// The last `exact` floats of a chunk travel as they are, the others in this form.
WireForm with_exact_end(WireForm form, std::size_t exact) {
  const auto end_of = [exact](std::size_t count) { return std::min(count, exact); };
  const auto begin_of = [exact](auto floats) {
    return floats.first(floats.size() - std::min(floats.size(), exact));
  };
  const auto rest_of = [end_of](auto bytes, std::size_t count) {
    return bytes.first(bytes.size() - end_of(count) * sizeof(float));
  };
  const auto copy_end = [end_of](const void* last, void* to, std::size_t count) {
    const std::size_t bytes = end_of(count) * sizeof(float);
    if (bytes > 0) std::memcpy(to, static_cast<const std::byte*>(last) - bytes, bytes);
  };
  WireForm whole;
  whole.bytes = [form, end_of](std::size_t count) {
    return form.bytes(count - end_of(count)) + end_of(count) * sizeof(float);
  };
  whole.encode = [=](std::span<const float> in, MutableByteView out) {
    const MutableByteView packed = rest_of(out, in.size());
    form.encode(begin_of(in), packed);
    copy_end(in.data() + in.size(), out.data() + packed.size(), in.size());
  };
  whole.decode = [=](ByteView in, std::span<float> out) {
    const std::span<float> packed = begin_of(out);
    form.decode(rest_of(in, out.size()), packed);
    copy_end(in.data() + in.size(), out.data() + packed.size(), out.size());
  };
  if (!form.encode_carrying) return whole;
  whole.encode_carrying = [=](std::span<const float> in, const collective::Feedback& with,
                              MutableByteView out) {
    const MutableByteView packed = rest_of(out, in.size());
    copy_end(in.data() + in.size(), out.data() + packed.size(), in.size());
    if (!with.arrives.empty() && with.arrives.data() != in.data())
      copy_end(in.data() + in.size(), with.arrives.data() + begin_of(with.arrives).size(),
               in.size());
    form.encode_carrying(begin_of(in),
                         {begin_of(with.carried), begin_of(with.lost), begin_of(with.arrives)},
                         packed);
  };
  return whole;
}

}  // namespace

std::size_t exact_end_of(const model::Model& model) {
  return model.parameter_count() - model::trained_count(model.parameters()) + model::kTailElements;
}

// A result travels in the form of the partial sums in every mode: what the owner's encoding leaves
// out of it is made up for in the next step, as what a member leaves out is. So `topk` needs no
// dense way back, and its bytes do not grow with the members.
Result<std::shared_ptr<const collective::WireForms>> wire_forms_of(ops::Backend& backend,
                                                                   const job::ExchangeSpec& spec,
                                                                   std::size_t exact_end) {
  using Mode = job::ExchangeMode;
  const Mode mode = spec.mode == Mode::local ? spec.form : spec.mode;
  const ops::Operations& ops = backend.operations();
  collective::WireForms forms;
  switch (mode) {
    case Mode::exact:
    case Mode::ring:
    case Mode::hierarchical:
      return std::shared_ptr<const collective::WireForms>();
    case Mode::bf16:
      forms.partial = form_of(backend, ops::bf16_bytes, ops.pack_bf16, ops.unpack_bf16);
      break;
    case Mode::int8:
      forms.partial = form_of(backend, ops::int8_bytes, ops.pack_int8, ops.unpack_int8);
      carry_in_int8(backend, forms.partial);
      forms.feedback = true;
      break;
    case Mode::topk: {
      const auto bytes = [density = spec.density](std::size_t count) {
        const double kept = std::ceil(static_cast<double>(count) * density);
        return ops::top_bytes(std::min(count, static_cast<std::size_t>(kept)));
      };
      forms.partial = form_of(backend, bytes, ops.pack_top, ops.unpack_top);
      forms.feedback = true;
      break;
    }
    case Mode::local:
      return Error{ErrorCode::internal, "local rounds cannot be the form of local rounds"};
  }
  forms.partial = with_exact_end(std::move(forms.partial), exact_end);
  forms.result = forms.partial;
  return std::make_shared<const collective::WireForms>(std::move(forms));
}

}  // namespace gpunode::compute
