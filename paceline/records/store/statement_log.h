// Statements that changed a database, with the values that were bound, as bytes: another database in which
// they run in the same order has the same rows. For the copy of a journal on another host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::store {

using LoggedValue = std::variant<std::nullptr_t, std::int64_t, double, std::string>;

struct LoggedStatement {
  std::string sql;
  std::vector<LoggedValue> values;
};

class StatementLog {
 public:
  template <class... Values>
  void add(std::string_view sql, const Values&... values) {
    put_text(sql);
    put_number(static_cast<std::int64_t>(sizeof...(values)));
    (put(values), ...);
  }
  // The bytes since the last take().
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  void put_number(std::int64_t value);
  void put_text(std::string_view text);
  void put(std::nullptr_t) { bytes_ += 'n'; }
  void put(std::int64_t value) {
    bytes_ += 'i';
    put_number(value);
  }
  void put(double value);
  void put(std::string_view value) {
    bytes_ += 't';
    put_text(value);
  }
  template <class Value>
  void put(const std::optional<Value>& value) {
    return value ? put(*value) : put(nullptr);
  }

  std::string bytes_;
};

// Errors: InvalidArgument for bytes that no log has made.
absl::StatusOr<std::vector<LoggedStatement>> read_statements(std::string_view bytes);

}  // namespace paceline::store
