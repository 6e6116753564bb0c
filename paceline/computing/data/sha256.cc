#include "paceline/computing/data/sha256.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "paceline/base/check.h"
#include "paceline/base/file_descriptor.h"

namespace paceline::data {

namespace {

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

absl::Status cannot_read(const std::filesystem::path& path) {
  return absl::UnavailableError(fmt::format("{}: cannot be read: {}; check the path and its permissions",
                                            path.string(), std::generic_category().message(errno)));
}

}  // namespace

absl::StatusOr<std::string> sha256_of_file(const std::filesystem::path& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return cannot_read(path);
  const std::unique_ptr<EVP_MD_CTX, FreeDigest> digest(EVP_MD_CTX_new());
  PACELINE_CHECK(digest != nullptr && EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) == 1,
                 "OpenSSL has no SHA-256");
  std::vector<char> bytes(1 << 20);
  for (;;) {
    const ssize_t count = read(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(path);
    if (count == 0) break;
    EVP_DigestUpdate(digest.get(), bytes.data(), static_cast<std::size_t>(count));
  }
  std::array<unsigned char, 32> sum{};
  EVP_DigestFinal_ex(digest.get(), sum.data(), nullptr);
  std::string text;
  for (const unsigned char byte : sum) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace paceline::data
