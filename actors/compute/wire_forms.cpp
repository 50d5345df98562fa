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
          std::span<const float> in, const collective::Carry& with, MutableByteView out) {
        auto done = pack(*host->stream, host->workspace,
                         {.in = {in.data(), {length(in.size())}},
                          .carried = with.carried.empty() ? nullptr : with.carried.data(),
                          .lost = with.lost.data(),
                          .arrives = with.arrives.empty() ? nullptr : with.arrives.data(),
                          .out = out});
        GPUNODE_CHECK(done, done.error().message());
      };
}

WireForm with_last_as_it_is(WireForm form) {
  constexpr std::size_t kLast = sizeof(float);
  WireForm whole;
  whole.bytes = [form](std::size_t count) { return count ? form.bytes(count - 1) + kLast : 0; };
  whole.encode = [form](std::span<const float> in, MutableByteView out) {
    if (in.empty()) return;
    form.encode(in.first(in.size() - 1), out.first(out.size() - kLast));
    std::memcpy(out.data() + out.size() - kLast, &in.back(), kLast);
  };
  whole.decode = [form](ByteView in, std::span<float> out) {
    if (out.empty()) return;
    form.decode(in.first(in.size() - kLast), out.first(out.size() - 1));
    std::memcpy(&out.back(), in.data() + in.size() - kLast, kLast);
  };
  if (!form.encode_carrying) return whole;
  whole.encode_carrying = [form](std::span<const float> in, const collective::Carry& with,
                                 MutableByteView out) {
    if (in.empty()) return;
    const auto rest = [](auto floats) { return floats.first(floats.size() - !floats.empty()); };
    const float last = in.back();
    form.encode_carrying(rest(in), {rest(with.carried), rest(with.lost), rest(with.arrives)},
                         out.first(out.size() - kLast));
    std::memcpy(out.data() + out.size() - kLast, &last, kLast);
    if (!with.arrives.empty()) with.arrives.back() = last;
  };
  return whole;
}

}  // namespace

// A result travels in the form of the partial sums in every mode: what the owner's encoding leaves
// out of it is made up for in the next step, as what a member leaves out is. So `topk` needs no
// dense way back, and its bytes do not grow with the members.
Result<std::shared_ptr<const collective::WireForms>> wire_forms_of(ops::Backend& backend,
                                                                   const job::ExchangeSpec& spec) {
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
  forms.partial = with_last_as_it_is(std::move(forms.partial));
  forms.result = forms.partial;
  return std::make_shared<const collective::WireForms>(std::move(forms));
}

}  // namespace gpunode::compute
