#include "paceline/decisions/policy/policy_text.h"

#include <utility>

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

namespace paceline::policy {

namespace {

constexpr std::int64_t kMostIterations = 1'000'000;

}  // namespace

PolicyText::PolicyText(std::string text) : whole(std::move(text)), parts(absl::StrSplit(whole, ':')) {}

absl::Status PolicyText::wrong(const std::string& fix) const {
  return absl::InvalidArgumentError(fmt::format("policy '{}': {}", whole, fix));
}

absl::Status PolicyText::only_a_name() const {
  if (parts.size() == 1) return absl::OkStatus();
  return wrong(fmt::format("{0} takes no number; write {0}", parts[0]));
}

std::optional<std::int64_t> iterations(const std::string& text) {
  std::int64_t value = 0;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || !absl::SimpleAtoi(text, &value) || value > kMostIterations) return std::nullopt;
  return value;
}

}  // namespace paceline::policy
