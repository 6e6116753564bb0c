#include "paceline/processes/coordinator/order_log.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::coordinator {

namespace {

// The version that an order keeps.
std::optional<std::int64_t> kept_by(const wire::ServerOrder& order) {
  if (order.has_keep()) return order.keep().version();
  if (order.has_write_checkpoint()) return order.write_checkpoint().version();
  return std::nullopt;
}

// Whether `drop` is the end of what `order` keeps.
bool ends(const wire::ServerOrder& drop, const wire::ServerOrder& order) {
  return drop.has_drop() && kept_by(order) == drop.drop().version() &&
         order.has_write_checkpoint() == drop.drop().checkpoint();
}

}  // namespace

OrderLog::OrderLog(std::size_t servers, Version start) : made_(servers), base_(start), newest_(start) {
  std::fill(made_.begin(), made_.end(), start);
}

void OrderLog::told(const wire::ServerOrder& order) {
  if (order.has_apply()) newest_ = Version(order.apply().version());
  orders_.push_back(order);
}

void OrderLog::made(ServerId server, Version version) {
  made_[server] = std::max(made_[server], version);
  const Version by_all = std::min(newest_, *std::min_element(made_.begin(), made_.end()));
  while (base_ < by_all) forget_first();
}

void OrderLog::forget_first() {
  const wire::ServerOrder order = std::move(orders_.front());
  orders_.pop_front();
  if (order.has_apply()) {
    base_ = Version(order.apply().version());
  } else if (order.has_map_gradient()) {
    mapped_[order.map_gradient().replica()] = order;
  } else if (order.has_unmap_gradient()) {
    mapped_.erase(order.unmap_gradient().replica());
  } else if (kept_by(order)) {
    kept_.push_back(order);
  } else if (order.has_drop()) {
    const auto found =
        std::find_if(kept_.begin(), kept_.end(), [&](const auto& kept) { return ends(order, kept); });
    if (found != kept_.end()) kept_.erase(found);
  }
}

// A version that was kept and is dropped by now may be gone, so such a pair of orders is left out.
std::vector<wire::ServerOrder> OrderLog::since(Version version) const {
  PACELINE_CHECK(reaches_back_to(version), "orders since version {} of {} to {}", version, base_, newest_);
  std::vector<wire::ServerOrder> orders;
  for (const auto& [replica, order] : mapped_) orders.push_back(order);
  const auto keep = [&](const wire::ServerOrder& order) {
    wire::ServerOrder again;
    again.mutable_keep()->set_version(*kept_by(order));
    again.mutable_keep()->set_again(true);
    orders.push_back(std::move(again));
  };
  std::vector<bool> dropped(kept_.size() + orders_.size(), false);
  const auto at = [&](std::size_t i) -> const wire::ServerOrder& {
    return i < kept_.size() ? kept_[i] : orders_[i - kept_.size()];
  };
  for (std::size_t i = kept_.size(); i < dropped.size(); ++i) {
    for (std::size_t before = 0; before < i && at(i).has_drop(); ++before) {
      if (dropped[before] || !ends(at(i), at(before))) continue;
      dropped[before] = true;
      break;
    }
  }
  for (std::size_t i = 0; i < dropped.size(); ++i) {
    const wire::ServerOrder& order = at(i);
    if (dropped[i] || order.has_drop()) continue;
    if (kept_by(order)) {
      keep(order);
    } else if (!order.has_apply() || Version(order.apply().version()) > version) {
      orders.push_back(order);
    }
  }
  return orders;
}

}  // namespace paceline::coordinator
