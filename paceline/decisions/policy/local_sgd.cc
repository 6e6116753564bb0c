#include "paceline/decisions/policy/local_sgd.h"

#include <fmt/format.h>

namespace paceline::policy {

absl::StatusOr<LocalSgdSpec> LocalSgdSpec::parse(const PolicyText& text) {
  static constexpr std::int64_t kMostLocalSteps = 10'000;
  const auto steps = text.parts.size() == 2 ? iterations(text.parts[1]) : std::nullopt;
  if (!steps || *steps < 1 || *steps > kMostLocalSteps)
    return text.wrong("write local-sgd:H with H from 1 to 10000, for example local-sgd:8");
  return LocalSgdSpec{*steps};
}
std::vector<std::string> LocalSgdSpec::examples() { return {"local-sgd:2"}; }
std::string LocalSgdSpec::text() const { return fmt::format("{}:{}", kName, steps); }
std::unique_ptr<SyncPolicy> LocalSgdSpec::make() const { return std::make_unique<LocalSgd>(steps); }

}  // namespace paceline::policy
