// The planner's knowledge of the machines: devices, the links between them, and the servers that hold the
// weights. Plain values. A device is named by its index; a device that has left keeps its index and is not
// present.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "paceline/decisions/planner/profile.h"

namespace paceline::planner {

// One direction of a link; the other one is equally fast, and both may be used at once.
struct Link {
  double latency_ms = 0;
  double bytes_per_ms = std::numeric_limits<double>::infinity();

  double sending_ms(double bytes) const { return bytes / bytes_per_ms; }  // the link is busy for this time
  // time until the last byte arrives
  double ms(double bytes) const { return latency_ms + sending_ms(bytes); }
};

struct Device {
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  std::string name;
  double speed = 1;  // φ: work done per unit of time; 1 for the profile's device
  // Measured time of each layer for one sample, forward and backward, at speed 1. Empty: the profile's times.
  std::vector<double> layer_ms;
  // Added to each micro-batch on a stage, whatever its size. Not said: what the profile has measured, or else
  // Cluster::usual_overhead_ms.
  std::optional<double> overhead_ms;
  std::int64_t memory_bytes = kNoLimit;
  double price_per_hour = 0;
  double power_w = 0;  // while it computes
  std::int32_t site = 0;
  std::int32_t host = 0;  // stages on another host than the first one send their gradients there
  Link servers;           // link to the servers
  bool present = true;
};

struct Cluster {
  std::vector<Device> devices;
  std::vector<Link> links;  // index: from · devices.size() + to; the diagonal is not used
  // How much all servers together can receive, and send.
  double server_bytes_per_ms = std::numeric_limits<double>::infinity();
  std::int32_t server_site = 0;
  bool on_one_host = false;  // all links, also those to the servers, are this host's memory
  double usual_overhead_ms = 0;

  std::int32_t size() const { return static_cast<std::int32_t>(devices.size()); }
  const Link& link(std::int32_t from, std::int32_t to) const { return links[place(from, to)]; }
  Link& link(std::int32_t from, std::int32_t to) { return links[place(from, to)]; }

 private:
  std::size_t place(std::int32_t from, std::int32_t to) const {
    return static_cast<std::size_t>(from) * devices.size() + static_cast<std::size_t>(to);
  }
};

}  // namespace paceline::planner
