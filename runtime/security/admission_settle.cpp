// Who counts, by all that is known, whatever order it came in.
//
// Two nodes may put each other out, or one that was put out may go on to sign. Whose word counts then
// goes by seniority: first the recovery key, then whoever is fewer admissions away from the founder,
// then whoever was admitted earlier. Once a node is put out by one that is senior to it, it has no
// word any more: of what it admits that stands which the order names, and of what it puts out only
// whoever put it out itself ("of two at once both stand"; which came first, nobody can prove). What a
// junior orders puts its senior out, too, and leaves the senior its word. An order that is void is not
// kept: where what made it so turns out to be void itself, it counts once it is told again.
#include <algorithm>
#include <utility>

#include "runtime/security/admission.hpp"

namespace gpunode::security {

namespace {

bool names(const Revocation& order, const Admission& record) {
  return std::ranges::binary_search(order.kept, record.digest());
}

}  // namespace

// Of its admissions that held these rights at that time the most senior one. Put out since or not, as
// what was heard first must not decide.
const Admissions::Held* Admissions::seat_of(const NodeId& node, Rights rights,
                                            WallTime when) const {
  const auto found = admissions_.find(node);
  if (found == admissions_.end()) return nullptr;
  const Held* best = nullptr;
  for (const Held& own : found->second)
    if (own.gives(rights, when) && own.depth != Held::kNowhere &&
        (!best || own.is_senior_to(*best)))
      best = &own;
  return best;
}

// Those that put out who sits there, by nodes senior to it.
std::vector<const Revocation*> Admissions::orders_over(const Held& seat) const {
  std::vector<const Revocation*> orders;
  const auto found = revocations_.find(seat.record.node);
  if (found == revocations_.end()) return orders;
  for (const Revocation& one : found->second) {
    const Held* by = seat_of(one.issuer, kRightOperate, one.issued);
    if (is_recovery(one.issuer) || (by && by->is_senior_to(seat))) orders.push_back(&one);
  }
  return orders;
}

bool Admissions::is_overruled(const Revocation& order, const Held& seat) const {
  return std::ranges::any_of(orders_over(seat),
                             [&](const Revocation* over) { return over->issuer != order.node; });
}

// Whether who is put out by an order that is here has no word from now on.
bool Admissions::overrules(const Revocation& order) const {
  const Held* seat = seat_of(order.node, kRightOperate, order.issued);
  return !seat || std::ranges::any_of(orders_over(*seat),
                                      [&](const Revocation* over) { return *over == order; });
}

std::uint32_t Admissions::depth_of(const Admission& record) const {
  if (is_recovery(record.issuer)) return 0;
  if (record.node == record.issuer) return 1;  // the founder: no other passes judge()
  const Held* seat = seat_of(record.issuer, kRightAdmit | record.rights, record.issued);
  if (!seat) return Held::kNowhere;
  const bool stands = std::ranges::all_of(
      orders_over(*seat), [&](const Revocation* over) { return names(*over, record); });
  return stands ? seat->depth + 1 : Held::kNowhere;
}

// Whether the word of its issuer counts: nobody has put it out, or all who did named this record.
bool Admissions::vouched_for(const Admission& record) const {
  const auto revoked = revocations_.find(record.issuer);
  return revoked == revocations_.end() ||
         std::ranges::all_of(revoked->second,
                             [&](const Revocation& one) { return names(one, record); });
}

// Digests of what this node has admitted that is known here, and that each of these orders lets stand:
// what only one of them names, or nobody here has seen, is nothing to vouch for.
std::vector<std::array<std::byte, 32>> Admissions::still_named(
    const NodeId& node, const std::vector<Revocation>& orders) const {
  std::vector<std::array<std::byte, 32>> kept;
  for (const auto& [other, records] : admissions_)
    for (const Held& one : records)
      if (one.record.issuer == node && one.counts &&
          std::ranges::all_of(orders, [&](const Revocation& by) { return names(by, one.record); }))
        kept.push_back(one.record.digest());
  std::ranges::sort(kept);
  return kept;
}

// As far as that is settled.
bool Admissions::leads_back(const Admission& record) const {
  if (record.node == record.issuer || is_recovery(record.issuer)) return true;
  if (!vouched_for(record)) return false;
  const auto issuer = admissions_.find(record.issuer);
  return issuer != admissions_.end() && std::ranges::any_of(issuer->second, [&](const Held& own) {
           return own.counts && own.gives(kRightAdmit | record.rights, record.issued);
         });
}

// Of as many orders as one node may have those of the most senior stay, whichever came first.
const Revocation* Admissions::most_junior(const std::vector<Revocation>& orders,
                                          const Revocation& order) const {
  const auto seat = [&](const Revocation& one) {
    return seat_of(one.issuer, kRightOperate, one.issued);
  };
  const Revocation* junior = nullptr;
  const Held* lowest = seat(order);
  for (const Revocation& one : orders) {
    if (!lowest || is_recovery(one.issuer)) continue;
    const Held* held = seat(one);
    if (!held) return &one;
    if (!lowest->is_senior_to(*held)) continue;
    junior = &one;
    lowest = held;
  }
  return junior;
}

void Admissions::settle() {
  if (std::exchange(unsettled_, false) && !believes_) settle_all();
}

void Admissions::settle_all() {
  unsettled_ = false;
  drop_revocations([standing = settle_seniority()](const Revocation& one) {
    return !standing.contains(one.signature);
  });
  settle_counts();
}

// Along the chains, the most senior first: when it is looked at what one has signed, all is known that
// may void it. Returns the orders that stand, by their signatures.
std::set<Signature> Admissions::settle_seniority() {
  std::unordered_map<NodeId, std::vector<Held*>> admitted;
  std::unordered_map<NodeId, std::vector<const Revocation*>> ordered, over;
  std::set<Signature> standing;
  const auto stands = [&](const Revocation& order) {
    standing.insert(order.signature);
    over[order.node].push_back(&order);
  };
  for (const auto& [node, records] : revocations_)
    for (const Revocation& one : records)
      is_recovery(one.issuer) ? stands(one) : ordered[one.issuer].push_back(&one);
  const auto senior = [](const Held* one, const Held* other) { return one->is_senior_to(*other); };
  std::set<Held*, decltype(senior)> open(senior);
  for (auto& [node, records] : admissions_)
    for (Held& one : records) {
      const bool roots = is_recovery(one.record.issuer), founds = node == one.record.issuer;
      one.depth = roots ? 0 : founds ? 1 : Held::kNowhere;
      roots || founds ? void(open.insert(&one)) : admitted[one.record.issuer].push_back(&one);
      changed_.insert(node);
    }
  while (!open.empty()) {
    const Held& seat = *open.extract(open.begin()).value();
    const std::vector<const Revocation*>& above = over[seat.record.node];
    std::erase_if(ordered[seat.record.node], [&](const Revocation* order) {
      if (!seat.gives(kRightOperate, order->issued)) return false;
      if (std::ranges::all_of(above,
                              [&](const Revocation* one) { return one->issuer == order->node; }))
        stands(*order);
      return true;  // or it is void, and would be from a lower seat
    });
    std::erase_if(admitted[seat.record.node], [&](Held* one) {
      if (!seat.gives(kRightAdmit | one->record.rights, one->record.issued)) return false;
      if (!std::ranges::all_of(above,
                               [&](const Revocation* over) { return names(*over, one->record); }))
        return true;
      one->depth = seat.depth + 1;
      open.insert(one);
      return true;
    });
  }
  return standing;
}

// From the founder and the recovery key on, along those that may admit.
void Admissions::settle_counts() {
  std::unordered_map<NodeId, std::vector<Held*>> by_issuer;
  std::set<NodeId> open;
  for (auto& [node, records] : admissions_)
    for (Held& one : records) {
      by_issuer[one.record.issuer].push_back(&one);
      one.counts = node == one.record.issuer || is_recovery(one.record.issuer);
      if (one.counts) open.insert(node);
    }
  while (!open.empty()) {
    const NodeId issuer = open.extract(open.begin()).value();
    for (Held* one : by_issuer[issuer])
      if (!one->counts && leads_back(one->record)) {
        one->counts = true;
        open.insert(one->record.node);
      }
  }
}

void Admissions::drop_revocations(const std::function<bool(const Revocation&)>& is_void) {
  std::erase_if(news_.revocations, is_void);
  for (auto at = revocations_.begin(); at != revocations_.end();) {
    std::erase_if(at->second, [&](const Revocation& one) {
      if (!is_void(one)) return false;
      take_weight(one);
      changed_.insert(one.node);
      dirty_ = true;
      return true;
    });
    if (!at->second.empty()) {
      ++at;
      continue;
    }
    restored_.insert(at->first);
    at = revocations_.erase(at);
  }
}

}  // namespace gpunode::security
