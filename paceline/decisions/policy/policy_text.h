// A policy as a user writes it, cut at its colons. For the parsers of the policies' own Specs
// (policy_spec.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

namespace paceline::policy {

struct PolicyText {
  explicit PolicyText(std::string text);

  std::string whole;
  std::vector<std::string> parts;  // the name first

  // InvalidArgument: what to write instead.
  absl::Status wrong(const std::string& fix) const;
  // OK if no text follows the name.
  absl::Status only_a_name() const;
};

// A whole number of iterations, nothing else around it, and not above what any policy takes.
std::optional<std::int64_t> iterations(const std::string& text);

}  // namespace paceline::policy
