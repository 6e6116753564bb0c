#include "paceline/decisions/coordinator/order_log.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::coordinator {

namespace {

// The version that an order keeps.
std::optional<Version> kept_by(const ServerOrder& order) {
  if (const auto* keep = std::get_if<Keep>(&order)) return keep->version;
  if (const auto* write = std::get_if<WriteCheckpoint>(&order)) return write->version;
  return std::nullopt;
}

// Whether `drop` is the end of what `order` keeps.
bool ends(const Drop& drop, const ServerOrder& order) {
  return kept_by(order) == drop.version && std::holds_alternative<WriteCheckpoint>(order) == drop.checkpoint;
}

}  // namespace

OrderLog::OrderLog(std::size_t servers, Version start) : made_(servers), base_(start), newest_(start) {
  std::fill(made_.begin(), made_.end(), start);
}

void OrderLog::told(const ServerOrder& order) {
  if (const auto* expect = std::get_if<Expect>(&order)) expected_ = expect->commit.version;
  if (std::holds_alternative<Expect>(order) || std::holds_alternative<Revoke>(order)) return;
  if (const auto* apply = std::get_if<Apply>(&order)) newest_ = apply->version;
  orders_.push_back(order);
}

void OrderLog::made(ServerId server, Version version) {
  made_[server] = std::max(made_[server], version);
  const Version by_all = std::min(newest_, *std::min_element(made_.begin(), made_.end()));
  while (base_ < by_all) forget_first();
}

void OrderLog::forget_first() {
  const ServerOrder order = std::move(orders_.front());
  orders_.pop_front();
  if (const auto* apply = std::get_if<Apply>(&order)) {
    base_ = apply->version;
  } else if (const auto* map = std::get_if<MapGradient>(&order)) {
    mapped_[map->replica] = *map;
  } else if (const auto* unmap = std::get_if<UnmapGradient>(&order)) {
    mapped_.erase(unmap->replica);
  } else if (kept_by(order)) {
    kept_.push_back(order);
  } else if (const auto* drop = std::get_if<Drop>(&order)) {
    const auto found =
        std::find_if(kept_.begin(), kept_.end(), [&](const auto& kept) { return ends(*drop, kept); });
    if (found != kept_.end()) kept_.erase(found);
  }
}

// A version that was kept and is dropped by now may be gone, so such a pair of orders is left out.
std::vector<ServerOrder> OrderLog::since(Version version) const {
  PACELINE_CHECK(reaches_back_to(version), "orders since version {} of {} to {}", version, base_, newest_);
  std::vector<ServerOrder> orders;
  for (const auto& [replica, order] : mapped_) orders.emplace_back(order);
  std::vector<bool> dropped(kept_.size() + orders_.size(), false);
  const auto at = [&](std::size_t i) -> const ServerOrder& {
    return i < kept_.size() ? kept_[i] : orders_[i - kept_.size()];
  };
  for (std::size_t i = kept_.size(); i < dropped.size(); ++i) {
    const auto* const drop = std::get_if<Drop>(&at(i));
    for (std::size_t before = 0; before < i && drop != nullptr; ++before) {
      if (dropped[before] || !ends(*drop, at(before))) continue;
      dropped[before] = true;
      break;
    }
  }
  for (std::size_t i = 0; i < dropped.size(); ++i) {
    const ServerOrder& order = at(i);
    if (dropped[i] || std::holds_alternative<Drop>(order)) continue;
    const auto* const apply = std::get_if<Apply>(&order);
    if (const auto kept = kept_by(order)) {
      const auto* const keep = std::get_if<Keep>(&order);
      orders.emplace_back(Keep{.version = *kept, .again = true, .in_host = keep != nullptr && keep->in_host});
    } else if (apply == nullptr || apply->version > version) {
      orders.push_back(order);
    }
  }
  return orders;
}

}  // namespace paceline::coordinator
