#include "paceline/base/shell_word.h"

#include <absl/strings/str_replace.h>

namespace paceline {

std::string shell_word(const std::string& text) {
  constexpr char kPlain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:=@%,";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  return "'" + absl::StrReplaceAll(text, {{"'", "'\\''"}}) + "'";
}

}  // namespace paceline
