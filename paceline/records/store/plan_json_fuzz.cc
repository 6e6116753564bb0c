// Any bytes as a plan and as devices' work on a batch in columns of the journal: read, and the same when
// written again, or one line that says what is wrong.
#include <cstddef>
#include <cstdint>
#include <string>

#include "paceline/base/check.h"
#include "paceline/base/testing/one_line.h"
#include "paceline/records/store/plan_json.h"

namespace {

template <class Value>
void check(const Value& value, const auto& read) {
  if (!value.ok()) {
    paceline::testing::check_one_line(value.status());
    return;
  }
  const std::string text = paceline::store::to_text(*value);
  const auto again = read(text);
  PACELINE_CHECK(again.ok() && paceline::store::to_text(*again) == text, "{} when written again", text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  check(paceline::store::plan_from_text(text), paceline::store::plan_from_text);
  check(paceline::store::work_from_text(text), paceline::store::work_from_text);
  return 0;
}
