#include "paceline/transport/security/token.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <system_error>

#include <absl/strings/ascii.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "paceline/base/status_macros.h"
#include "paceline/transport/security/secret_file.h"

namespace paceline::security {

namespace {
constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kLeastCharacters = 16;
constexpr std::string_view kCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+/=";
}  // namespace

absl::StatusOr<std::string> make_token() {
  std::array<unsigned char, kTokenBytes> bytes{};
  if (RAND_bytes(bytes.data(), kTokenBytes) != 1)
    return absl::UnavailableError("this system gives no random numbers to make a token of");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

absl::StatusOr<std::string> read_token(const std::filesystem::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_small(path));
  std::string token(absl::StripAsciiWhitespace(text));
  if (token.size() < kLeastCharacters || token.find_first_not_of(kCharacters) != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}: no token: write at least {} letters and digits, for example what `openssl rand -hex "
                    "32` gives",
                    path.string(), kLeastCharacters));
  }
  return token;
}

bool is_exposed(const std::filesystem::path& path) {
  std::error_code error;
  const auto mode = std::filesystem::status(path, error).permissions();
  constexpr auto kOthers = std::filesystem::perms::group_read | std::filesystem::perms::others_read;
  if (error || (mode & kOthers) == std::filesystem::perms::none) return false;
  // A secret of Kubernetes has the mode that its mount gives it.
  struct statvfs mount {};
  return ::statvfs(path.c_str(), &mount) != 0 || (mount.f_flag & ST_RDONLY) == 0;
}

std::string exposed_in_words(const std::filesystem::path& path) {
  return fmt::format("{}: others on this host can read the job's token; chmod 600 it", path.string());
}

absl::StatusOr<std::string> read_or_make_token(const std::filesystem::path& path) {
  if (auto token = read_token(path); !absl::IsNotFound(token.status())) return token;
  return replace_token(path);
}

absl::StatusOr<std::string> replace_token(const std::filesystem::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string token, make_token());
  ::unlink(path.c_str());  // if the file stays, the next line fails
  PACELINE_RETURN_IF_ERROR(write_new(path, token + "\n", kOwnerOnly));
  return token;
}

bool same_token(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace paceline::security
