#include "paceline/records/store/journal_row.h"

#include <limits>
#include <string_view>

#include "paceline/records/store/finish_cause.h"
#include "paceline/records/store/metrics_json.h"

namespace paceline::store {

namespace {

// True if to_string(Reason) can format it: braces only as "{}", twice at most, or doubled.
bool can_be_reason(std::string_view text) {
  int numbers = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{' && text[i] != '}') continue;
    const std::string_view pair = text.substr(i, 2);
    if (pair != "{}" && pair != "{{" && pair != "}}") return false;
    numbers += pair == "{}" ? 1 : 0;
    ++i;
  }
  return numbers <= 2;
}

}  // namespace

std::int64_t Row::integer(int column) {
  expect(row_.is_integer(column));
  return row_.integer(column);
}

std::int64_t Row::whole(int column) {
  const std::int64_t value = integer(column);
  expect(value >= 0);
  return value;
}

std::int32_t Row::whole32(int column) {
  const std::int64_t value = whole(column);
  expect(value <= std::numeric_limits<std::int32_t>::max());
  return static_cast<std::int32_t>(value);
}

double Row::real(int column) {
  expect(row_.is_real(column) || row_.is_null(column));
  return row_.is_null(column) ? std::numeric_limits<double>::quiet_NaN() : row_.real(column);
}

Lease Row::lease(int column, int scrap_column) {
  Lease lease{whole32(column), whole(column + 1), whole(column + 2)};
  expect(lease.begin <= lease.end);
  if (row_.is_null(scrap_column)) return lease;
  lease.scrap_begin = whole(scrap_column);
  lease.scrap_end = whole(scrap_column + 1);
  expect(lease.scrap_begin < lease.scrap_end && lease.scrap_end < lease.begin);
  return lease;
}

policy::Reason Row::reason(int column, Texts& texts) {
  const std::string_view kept = *texts.insert(row_.text(column)).first;
  expect(can_be_reason(kept));
  return {kept, integer(column + 1), integer(column + 2)};
}

control::FinishCause Row::cause(int column, const std::string& why) {
  using enum control::FinishCause;
  if (row_.is_null(column)) {
    if (why == "every sample is committed") return kEverySample;
    return why == "the target is reached" ? kTarget : kStopped;
  }
  const auto cause = finish_cause_from_text(row_.text(column));
  expect(cause.has_value());
  return cause.value_or(kStopped);
}

Metrics Row::metrics(int column) {
  if (row_.is_null(column)) return {};
  const auto metrics = metrics_from_text(row_.text(column));
  expect(metrics.ok());
  return metrics.ok() ? *metrics : Metrics();
}

}  // namespace paceline::store
