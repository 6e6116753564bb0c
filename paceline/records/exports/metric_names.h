// Names of a user's own metrics beside Paceline's numbers: if a name is taken, the user's becomes
// metrics/NAME. Pure.
#pragma once

#include <algorithm>
#include <string>

namespace paceline::exports {

inline std::string own_name(const std::string& metric, const auto& taken) {
  return std::find(std::begin(taken), std::end(taken), metric) == std::end(taken) ? metric
                                                                                  : "metrics/" + metric;
}

}  // namespace paceline::exports
