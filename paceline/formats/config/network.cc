#include "paceline/formats/config/network.h"

namespace paceline::config {

Link read_link(const toml::table* table, const std::string& path, const Link& otherwise,
               Complaints& complaints) {
  Section section(table, path, complaints);
  const Link link{.gbps = section.number("gbps", otherwise.gbps, 1e-6, 1e6),
                  .latency_us = section.number("latency_us", otherwise.latency_us, 0, 1e9)};
  section.finish();
  return link;
}

UpdateTime read_update_time(Section& section) {
  constexpr double kMostMs = 1e9;
  return {.update_ms = section.number("update_ms", 0, 0, kMostMs),
          .gradient_ms = section.number("gradient_ms", 0, 0, kMostMs)};
}

}  // namespace paceline::config
