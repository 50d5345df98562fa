#include "runtime/transport/mesh_link.hpp"

#include "runtime/transport/detail/bulk_lane.hpp"
#include "runtime/transport/detail/control_lane.hpp"

namespace gpunode::transport {

using detail::BulkLane;
using detail::ControlLane;
using detail::Envelope;

MeshLink::MeshLink(MeshLinkOptions options, LinkEvents events)
    : options_(std::move(options)), events_(std::move(events)) {
  control_ = std::make_unique<ControlLane>(
      options_, events_,
      ControlLane::Bulk{
          [this](const NodeId& node, bool up, Boot boot) { bulk_->on_control(node, up, boot); },
          [this](const NodeId& from, const Envelope& envelope) {
            bulk_->take_envelope(from, envelope);
          }});
  bulk_ = std::make_unique<BulkLane>(options_, events_,
                                     [this](const NodeId& to, const Envelope& envelope) {
                                       control_->post_envelope(to, envelope);
                                     });
}

MeshLink::~MeshLink() {
  close();
}

Result<std::unique_ptr<MeshLink>> MeshLink::open(MeshLinkOptions options, LinkEvents events) {
  if (!zmq_has("curve")) {
    return {ErrorCode::unsupported, "this libzmq is built without CURVE; install Debian's libzmq5"};
  }
  std::unique_ptr<MeshLink> link(new MeshLink(std::move(options), std::move(events)));
  ControlLane& control = *link->control_;
  BulkLane& bulk = *link->bulk_;
  auto opened = control.listen(link->options_.control_listen);
  if (!opened) return opened.error().within("control port");
  opened = bulk.listen(link->options_.bulk_listen);
  if (!opened) return opened.error().within("bulk port");
  bulk.start();  // first: control hands on what it hears for bulk
  control.start();
  opened = control.test_door();
  if (!opened) return opened.error().within("control port");
  opened = bulk.test_door();
  if (!opened) return opened.error().within("bulk port");
  return link;
}

void MeshLink::set_peer(PeerAddress address) {
  bulk_->set_peer(address);  // first: control reports up to it
  control_->set_peer(address);
}

void MeshLink::drop_peer(const NodeId& node) {
  bulk_->drop_peer(node);
  control_->drop_peer(node);
}

void MeshLink::use_keys(const LinkKeys& keys) {
  control_->use_keys(keys);  // bulk has none of its own: control agrees on its tickets
}

Result<void> MeshLink::send(const NodeId& to, Lane lane, Message message) {
  if (lane == Lane::bulk) return bulk_->send(to, std::move(message));
  return control_->send(to, std::move(message));
}

Result<Lane> MeshLink::send_soon(const NodeId& to, Message message) {
  message.urgency = Urgency::high;
  const Lane lane = detail::lane_of_length(message);
  if (lane == Lane::control && bulk_->send_soon(to, message)) return Lane::bulk;
  if (auto sent = send(to, lane, std::move(message)); !sent) return sent.error();
  return lane;
}

LinkCounters MeshLink::counters(Lane lane) const {
  return lane == Lane::bulk ? bulk_->counters() : control_->counters();
}

void MeshLink::close() {
  control_->stop();  // first: it calls into the other
  bulk_->stop();
}

const std::vector<std::string>& MeshLink::control_endpoints() const {
  return control_->endpoints();
}

const std::vector<std::string>& MeshLink::bulk_endpoints() const {
  return bulk_->endpoints();
}

}  // namespace gpunode::transport
