#include "paceline/records/store/statement_log.h"

#include <bit>
#include <cstring>

#include "paceline/base/status_macros.h"

namespace paceline::store {

namespace {

constexpr std::size_t kNumberBytes = 8;
constexpr std::int64_t kMostValues = 100;  // the most values of a statement

// Reads numbers and texts off the front of the bytes.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }

  absl::StatusOr<std::string_view> some(std::int64_t count) {
    if (count < 0 || static_cast<std::uint64_t>(count) > left_.size())
      return absl::InvalidArgumentError("the statements of a journal end in the middle of one");
    const std::string_view found = left_.substr(0, static_cast<std::size_t>(count));
    left_.remove_prefix(found.size());
    return found;
  }
  absl::StatusOr<std::int64_t> number() {
    PACELINE_ASSIGN_OR_RETURN(const std::string_view bytes, some(kNumberBytes));
    std::int64_t value = 0;
    std::memcpy(&value, bytes.data(), kNumberBytes);
    return value;
  }
  absl::StatusOr<std::string> text() {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t length, number());
    PACELINE_ASSIGN_OR_RETURN(const std::string_view bytes, some(length));
    return std::string(bytes);
  }
  absl::StatusOr<LoggedValue> value() {
    PACELINE_ASSIGN_OR_RETURN(const std::string_view kind, some(1));
    switch (kind.front()) {
      case 'n':
        return nullptr;
      case 'i':
        return number();
      case 'd': {
        PACELINE_ASSIGN_OR_RETURN(const std::int64_t bits, number());
        return std::bit_cast<double>(bits);
      }
      case 't':
        return text();
      default:
        return absl::InvalidArgumentError("a value of a journal's statement is of no known kind");
    }
  }

 private:
  std::string_view left_;
};

}  // namespace

void StatementLog::put_number(std::int64_t value) {
  char bytes[kNumberBytes];
  std::memcpy(bytes, &value, kNumberBytes);
  bytes_.append(bytes, kNumberBytes);
}

void StatementLog::put_text(std::string_view text) {
  put_number(static_cast<std::int64_t>(text.size()));
  bytes_ += text;
}

void StatementLog::put(double value) {
  bytes_ += 'd';
  put_number(std::bit_cast<std::int64_t>(value));
}

absl::StatusOr<std::vector<LoggedStatement>> read_statements(std::string_view bytes) {
  Bytes left(bytes);
  std::vector<LoggedStatement> all;
  while (!left.empty()) {
    LoggedStatement one;
    PACELINE_ASSIGN_OR_RETURN(one.sql, left.text());
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t count, left.number());
    if (count < 0 || count > kMostValues)
      return absl::InvalidArgumentError("a statement of a journal has too many values");
    for (std::int64_t i = 0; i < count; ++i) {
      PACELINE_ASSIGN_OR_RETURN(LoggedValue value, left.value());
      one.values.push_back(std::move(value));
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace paceline::store
