// The orders that a server which comes back needs, if memory has outlived it: what is mapped and kept, and all orders
// after the version that it has. Pure.
//
// Invariant: every server was told the same orders in the same sequence. The log begins with the oldest version that a
// server may come back with. A commit that is only expected is not in it (foresight.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "paceline/base/id_vector.h"
#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/process_orders.h"

namespace paceline::coordinator {

class OrderLog {
 public:
  // The servers start from this version.
  OrderLog(std::size_t servers, Version start);

  void told(const ServerOrder& order);
  // The server has published the version, and maybe later ones.
  void made(ServerId server, Version version);

  // Whether a server with this version can be brought to the newest.
  bool reaches_back_to(Version version) const {
    return version >= base_ && version <= std::max(newest_, expected_);
  }
  // The orders for that. A checkpoint is not written again: its version is only kept until it is dropped. Requires:
  // reaches_back_to(version).
  std::vector<ServerOrder> since(Version version) const;

 private:
  void forget_first();

  IdVector<ServerId, Version> made_;
  Version base_, newest_;
  Version expected_{};  // the version of the newest Expect
  // The state as of base_.
  std::map<ReplicaId, MapGradient> mapped_;
  std::vector<ServerOrder> kept_;
  std::deque<ServerOrder> orders_;  // after base_
};

}  // namespace paceline::coordinator
