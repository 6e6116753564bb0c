// A job's token: what every process of a job shows its coordinator with every call, also where there are no
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

// The token in the file, without the space around it. Errors: those of read_small(); InvalidArgument when it
// is shorter than 16 characters, or has others than letters, digits and -_.+/=.
absl::StatusOr<std::string> read_token(const std::filesystem::path& path);
// Whether others than its owner can read it.
bool is_exposed(const std::filesystem::path& path);
// What a person is to do about it, in a line.
std::string exposed_in_words(const std::filesystem::path& path);
// The same as read_token(), which makes the file, for its owner only, where there is none.
absl::StatusOr<std::string> read_or_make_token(const std::filesystem::path& path);
// Makes a new one in place of what is there, whose maker knows it. A link goes, and not what it leads to.
absl::StatusOr<std::string> replace_token(const std::filesystem::path& path);

// In a time that does not tell how much of it was right.
bool same_token(std::string_view a, std::string_view b);

}  // namespace paceline::security
