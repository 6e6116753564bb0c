// A job's token: every process of a job shows it to the coordinator with every call, even without
// certificates, so that a process of another job, or of another user of this machine, cannot join. Any
// thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace paceline::security {

// 256 random bits, as hexadecimal digits. Errors: the system has no randomness to give.
absl::StatusOr<std::string> make_token();

// The token in the file, without the space around it. Errors: those of read_small(); InvalidArgument if it is
// shorter than 16 characters, or has others than letters, digits and -_.+/=.
absl::StatusOr<std::string> read_token(const std::filesystem::path& path);
// True if users other than the owner can read it, and its mode can be changed.
bool is_exposed(const std::filesystem::path& path);
// The advice for a person, in a line.
std::string exposed_in_words(const std::filesystem::path& path);
// Like read_token(), but makes the file, for its owner only, if there is none.
absl::StatusOr<std::string> read_or_make_token(const std::filesystem::path& path);
// Makes a new token in place of the present one, which its maker knows. Replaces a link, not the file that it
// leads to.
absl::StatusOr<std::string> replace_token(const std::filesystem::path& path);

// Compares in a time that does not tell how much of the token was right.
bool same_token(std::string_view a, std::string_view b);

}  // namespace paceline::security
