// The network between replicas and servers, as a job or a scenario describes it.
#pragma once

#include "paceline/formats/config/section.h"

namespace paceline::config {

// A replica's link to the servers, full duplex.
struct Link {
  double gbps = 10;  // 10⁹ bits a second each way
  double latency_us = 50;
};

// Reads the keys gbps and latency_us of a [link]; a missing one has the value of `otherwise`. `table` may be
// null.
Link read_link(const toml::table* table, const std::string& path, const Link& otherwise,
               Complaints& complaints);

// How long the servers take for an update, each for its part. Updates queue.
struct UpdateTime {
  double update_ms = 0;    // for one gradient
  double gradient_ms = 0;  // for each further gradient that they sum for it

  bool none() const { return update_ms == 0 && gradient_ms == 0; }
};

// The keys update_ms and gradient_ms.
UpdateTime read_update_time(Section& section);

// The place of the weights: on servers of their own, or a part beside each replica.
enum class Placement { kCentral, kBeside };
// The memory that has weights, optimizer state and gradients: a card's if that can be (kAuto), or in any case (kGpu).
enum class ShardMemory { kAuto, kHost, kGpu };

// The bandwidth of the servers. Pushes and pulls queue for it.
struct ServerLinks {
  std::int64_t count = 1;
  double gbps = 10;        // how much each server can receive, and send
  bool colocated = false;  // one server beside each replica, on its link, instead of `count`
  UpdateTime update{};
};

}  // namespace paceline::config
