// Any bytes as a sweep file: cells that have a name, or one line that says what is wrong.
#include <cstddef>
#include <cstdint>
#include <string>

#include "paceline/base/check.h"
#include "paceline/base/testing/one_line.h"
#include "paceline/formats/config/sweep.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto sweep = paceline::config::parse_sweep(text, "FILE");
  if (!sweep.ok()) {
    paceline::testing::check_one_line(sweep.status(), "FILE");
    return 0;
  }
  const auto cells = paceline::config::cells_of(*sweep);
  PACELINE_CHECK(!cells.empty(), "a sweep of nothing");
  for (const auto& cell : cells)
    PACELINE_CHECK(!paceline::config::name_of(*sweep, cell).empty(), "a cell without a name");
  return 0;
}
