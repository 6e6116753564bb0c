// Any bytes as the state of a Controller, which servers send and checkpoints hold: one that some run can have
// been in, and that is the same when written again, or one line that says what is wrong.
#include <cstddef>
#include <cstdint>
#include <string>

#include "paceline/base/check.h"
#include "paceline/base/testing/one_line.h"
#include "paceline/records/store/controller_state_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto state = paceline::store::controller_state_from_text(text);
  if (!state.ok()) {
    paceline::testing::check_one_line(state.status());
    return 0;
  }
  const std::int64_t committed = paceline::store::committed_samples(*state);
  PACELINE_CHECK(committed >= 0 && committed <= state->ledger.next, "{} samples committed", committed);
  const auto again = paceline::store::controller_state_from_text(paceline::store::to_text(*state));
  PACELINE_CHECK(again.ok() && *again == *state, "another state when written again");
  return 0;
}
