#include "runtime/transport/zmq_link.hpp"

#include "runtime/transport/detail/bulk_lane.hpp"
#include "runtime/transport/detail/control_lane.hpp"

namespace gpunode::transport {

namespace {

class ComposedLink final : public ZmqLink {
 public:
  ComposedLink(ZmqLinkOptions options, LinkEvents events)
      : options_(std::move(options)),
        events_(std::move(events)),
        control_(options_, events_),
        bulk_(options_, events_, [this](const NodeId& to, const detail::Envelope& envelope) {
          control_.post_envelope(to, envelope);
        }) {
    control_.tell(
        {[this](const NodeId& node, bool up, Boot boot) { bulk_.control_changed(node, up, boot); },
         [this](const NodeId& from, const detail::Envelope& envelope) {
           bulk_.post_envelope(from, envelope);
         }});
  }
  ~ComposedLink() override { close(); }

  Result<void> start() {
    if (auto bound = control_.listen(options_.control_listen); !bound) {
      return bound.error().within("control port");
    }
    if (auto bound = bulk_.listen(options_.bulk_listen); !bound) {
      return bound.error().within("bulk port");
    }
    bulk_.start();
    control_.start();
    if (auto closed = control_.test_door(); !closed) return closed.error().within("control port");
    if (auto closed = bulk_.test_door(); !closed) return closed.error().within("bulk port");
    return {};
  }

  void set_peer(PeerAddress address) override {
    bulk_.set_peer(address);  // first: control reports up to it
    control_.set_peer(address);
  }
  void drop_peer(const NodeId& node) override {
    bulk_.drop_peer(node);
    control_.drop_peer(node);
  }
  Result<void> send(const NodeId& to, Lane lane, Message message) override {
    if (lane == Lane::control) return control_.send(to, std::move(message));
    return bulk_.send(to, std::move(message));
  }
  LinkCounters counters(Lane lane) const override {
    return lane == Lane::control ? control_.counters() : bulk_.counters();
  }
  void close() override {
    control_.stop();
    bulk_.stop();
  }
  std::vector<std::string> control_endpoints() const override { return control_.endpoints(); }
  std::vector<std::string> bulk_endpoints() const override { return bulk_.endpoints(); }

 private:
  const ZmqLinkOptions options_;
  const LinkEvents events_;
  detail::ControlLane control_;
  detail::BulkLane bulk_;
};

}  // namespace

Result<std::unique_ptr<ZmqLink>> ZmqLink::open(ZmqLinkOptions options, LinkEvents events) {
  if (!zmq_has("curve")) {
    return {ErrorCode::unsupported, "this libzmq is built without CURVE; install Debian's libzmq5"};
  }
  auto link = std::make_unique<ComposedLink>(std::move(options), std::move(events));
  if (auto started = link->start(); !started) return started.error();
  return std::unique_ptr<ZmqLink>(std::move(link));
}

}  // namespace gpunode::transport
