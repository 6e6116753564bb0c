// A buffer that writes text in large pieces, so that the output of a long run is never held in memory. After
// a first error nothing more is written. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <absl/status/status.h>

namespace paceline::exports {

using Write = std::function<absl::Status(std::string_view)>;

class TextOut {
 public:
  static constexpr std::size_t kPiece = std::size_t{256} << 10;

  explicit TextOut(Write write) : write_(std::move(write)) {}

  // The buffer to append to; call flush_if_large() afterwards.
  std::string& text() { return text_; }
  void flush_if_large() {
    if (text_.size() >= kPiece) flush().IgnoreError();
  }
  // Returns the first error that any flush had.
  absl::Status flush() {
    if (status_.ok() && !text_.empty()) status_ = write_(text_);
    text_.clear();
    return status_;
  }

 private:
  const Write write_;
  std::string text_;
  absl::Status status_;
};

}  // namespace paceline::exports
