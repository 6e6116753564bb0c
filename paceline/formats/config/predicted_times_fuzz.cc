// Any bytes as a file of predicted times: lists that ZipLine can take, or one line that says what is wrong.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "paceline/base/check.h"
#include "paceline/base/testing/one_line.h"
#include "paceline/formats/config/predicted_times.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto found = paceline::config::parse_predicted_times(text, "FILE");
  if (!found.ok()) {
    paceline::testing::check_one_line(found.status(), "FILE:");
    return 0;
  }
  PACELINE_CHECK(!found->lists.empty() && found->lists.size() == found->names.size(), "lists without names");
  for (const std::vector<double>& list : found->lists) {
    PACELINE_CHECK(!list.empty() && std::is_sorted(list.begin(), list.end()),
                   "a list that no search can take");
  }
  return 0;
}
