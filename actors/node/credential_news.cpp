#include "actors/node/credential_news.hpp"

#include "actors/node/relay_codec.hpp"

namespace gpunode::node {

namespace {

// Records that go out at once; more of them are summarised and paged.
constexpr std::size_t kFew = 256;
constexpr std::size_t kPagesATick = 16;
constexpr std::size_t kPartBytes = std::size_t{512}
                                   << 10;  // of a message; the largest order is 131 KB

transport::Message message_of(RelayKind kind, Bytes bytes) {
  return {transport::Topic::admission, 0, encode(RelayMessage{kind}),
          SharedBytes::from(std::move(bytes))};
}

std::vector<transport::Message> messages_of(const security::Credentials& credentials) {
  std::vector<transport::Message> messages;
  for (const security::Credentials& part : credentials.parts(kPartBytes))
    messages.push_back(message_of(RelayKind::credentials, security::encode_credentials(part)));
  return messages;
}

}  // namespace

Result<void> CredentialNews::tell(const NodeId& to,
                                  const std::vector<transport::Message>& messages) {
  Result<void> told;
  for (const transport::Message& one : messages)
    if (auto sent = link_->send(to, transport::Lane::control, one); !sent && told) told = sent;
  return told;
}

std::vector<transport::Message> CredentialNews::greeting() const {
  security::Credentials first = list_->all();
  if (first.size() > kFew) first = {{}, {}, std::move(first.revocations)};
  auto messages = messages_of(first);
  messages.push_back(message_of(RelayKind::summary, security::encode_summary(list_->summary())));
  return messages;
}

void CredentialNews::on_session(const NodeId& peer) {
  linked_.insert(peer);
  (void)tell(peer, greeting());
}

void CredentialNews::greet_all() {
  const auto messages = greeting();
  for (const NodeId& peer : linked_) (void)tell(peer, messages);
}

// To whoever has a session, not only to those that the detector calls alive: a node whose session came
// up just before would else miss this and, knowing no better, shut the newcomer out for good. Not to
// all that are admitted, who may be thousands: each new one would cost as much.
void CredentialNews::spread(const security::Credentials& news) {
  if (news.empty()) return;
  const auto messages = messages_of(news);
  const auto list = list_->snapshot();
  for (const NodeId& node : linked_)
    if (const auto* standing = list->find(node); standing && !standing->revoked)
      (void)tell(node, messages);
}

// A page is a 256th of the nodes.
void CredentialNews::on_summary(const NodeId& from, ByteView bytes) {
  const auto theirs = security::decode_summary(bytes);
  if (!theirs) return;
  const security::CredentialsSummary ours = list_->summary();
  auto& pages = pages_[from];
  for (std::size_t index = 0; index < ours.size(); ++index)
    if (ours[index] != (*theirs)[index] && ours[index] != 0) pages.insert(index);
}

void CredentialNews::on_tick() {
  for (auto at = pages_.begin(); at != pages_.end();) {
    auto& [peer, pages] = *at;
    for (std::size_t sent = 0; sent < kPagesATick && !pages.empty(); ++sent) {
      const std::size_t index = pages.extract(pages.begin()).value();
      if (!tell(peer, messages_of(list_->bucket(index))))
        pages.clear();  // its next session begins anew
    }
    at = pages.empty() ? pages_.erase(at) : std::next(at);
  }
}

}  // namespace gpunode::node
