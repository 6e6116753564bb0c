// A message in a trace. Most runs have no trace, so its text is made only where it is shown.
#pragma once

#include <fmt/format.h>
#include <google/protobuf/message.h>

namespace paceline::cluster_sim {

struct Shown {
  const google::protobuf::Message& message;
};

}  // namespace paceline::cluster_sim

template <>
struct fmt::formatter<paceline::cluster_sim::Shown> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const paceline::cluster_sim::Shown& shown, Context& context) const {
    return fmt::formatter<std::string>::format(shown.message.ShortDebugString(), context);
  }
};
